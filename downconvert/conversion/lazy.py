"""Records that are converted while they are sent.

A fetch handler holds this object between building its response and writing it. The object knows the
size of the response's record set. It holds no converted bytes of a large response, except
recompressed messages (made.py). The model is Kafka's LazyDownConversionRecords (KIP-283).

Not here: finding the size (plan.py), sending (send.py)."""

from collections.abc import Iterable
from time import perf_counter
from typing import Self

from records.errors import RecordsError
from records.files.source import Records
from records.steps import Steps, at_once

from .converter import Converter
from .plan import planning
from .policy import AbortedTransaction, ConversionPolicy
from .request import Request
from .send import LazyDownConvertSend
from .stats import Clock

DEFAULT_POLICY = ConversionPolicy()


class LazyDownConvertRecords:
    """A range of records for a client that reads message format `to_magic` (0 or 1; 2 sends them
    as they are).

    Records below `first_offset`, the fetch offset, are left out if they need not be sent.
    `aborted`: the aborted transactions of the range, in any order, for a policy with
    isolation="read_committed". Under any other policy it raises ValueError. Raises RecordsError if
    nothing can be sent: the first batch is damaged, or refused by the policy.

    size: the exact number of bytes that a send will write.

    >>> from io import BytesIO
    >>> from records import MemoryRecords, Record, build
    >>> log = MemoryRecords(build([Record(offset=7, timestamp=0, value=b"hello")], magic=2))
    >>> lazy = LazyDownConvertRecords(log, to_magic=1, first_offset=7)
    >>> lazy.size
    39
    >>> channel, send = BytesIO(), lazy.to_send()
    >>> while not send.completed:
    ...     _ = send.write_to(channel)
    >>> len(channel.getvalue())
    39"""

    __slots__ = ("_clock", "_plan", "_records", "_request", "size")

    def __init__(
        self,
        records: Records,
        to_magic: int,
        first_offset: int = 0,
        policy: ConversionPolicy = DEFAULT_POLICY,
        *,
        aborted: Iterable[AbortedTransaction] = (),
        clock: Clock = perf_counter,
    ) -> None:
        self._records, self._clock = records, clock
        self._request = Request.of(to_magic, first_offset, policy, aborted)
        self._plan = at_once(planning(records, self._request, clock))
        self.size = self._plan.size

    @classmethod
    def in_steps(
        cls,
        records: Records,
        to_magic: int,
        first_offset: int = 0,
        policy: ConversionPolicy = DEFAULT_POLICY,
        *,
        aborted: Iterable[AbortedTransaction] = (),
        clock: Clock = perf_counter,
    ) -> Steps[Self]:
        """A generator that returns a range, and raises the same errors as the constructor. It is
        for callers that also serve other connections. After each step but the last it yields the
        step's work: bytes that went through memory. Recompressed bytes count several times. A step
        takes milliseconds at most, however large a batch is. Between two steps up to 2 MiB of
        memory are held, until the generator ends or is closed."""
        lazy = cls.__new__(cls)
        lazy._records, lazy._clock = records, clock
        lazy._request = Request.of(to_magic, first_offset, policy, aborted)
        lazy._plan = yield from planning(records, lazy._request, clock)
        lazy.size = lazy._plan.size
        return lazy

    @property
    def is_held(self) -> bool:
        """Whether all messages have been made, so that sending converts nothing."""
        return not self._plan.end

    def head(self) -> memoryview:
        """The first messages, or a part of a large one. Converts them, unless they have been made.
        Empty if no record is kept, even if an estimate promises bytes. Raises the errors of a
        send."""
        held = self._plan.held
        if held is not None and not self._plan.end:
            return memoryview(held.messages)
        converter = Converter(self._records, self._request)
        try:
            return memoryview(bytes(next(converter.messages(self._records.size), b"")))
        finally:
            converter.release()

    @property
    def is_whole(self) -> bool:
        """Whether a send covers all of the records. Otherwise the range ends early: before damage
        or a refusal, or after enough recompressed messages. The next fetch begins after the last
        record sent, so no other records may follow in this response."""
        return self._plan.is_whole

    @property
    def damage(self) -> RecordsError | None:
        """The damage or refusal, after good records, that ends an exact range early. None if there
        is none."""
        return self._plan.damage

    def to_send(self, size_max: int | None = None) -> LazyDownConvertSend:
        """A send of the whole range, or of its first `size_max` bytes. Raises ValueError if that is
        negative."""
        if size_max is not None and size_max < 0:
            raise ValueError(f"size_max must be at least 0, not {size_max}")
        return LazyDownConvertSend(
            self._records, self._request, self._plan, size_max, clock=self._clock
        )
