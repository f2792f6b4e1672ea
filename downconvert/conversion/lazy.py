"""Records that are converted only while they are sent.

What a fetch handler holds between building its response and writing it: how many bytes the
response's record set will have, and nothing converted. Kafka's LazyDownConversionRecords
(KIP-283).

Not here: how the size is found (plan.py), the sending (send.py)."""

from time import perf_counter

from records.errors import RecordsError
from records.source import Records

from .converter import Converter
from .plan import ends, plan
from .policy import ConversionPolicy
from .send import Clock, LazyDownConvertSend

DEFAULT_POLICY = ConversionPolicy()


class LazyDownConvertRecords:
    """A range of records for a client that reads message format `to_magic` (0 or 1; 2 sends them
    as they are).

    Records below `first_offset`, the offset that was asked for, are left out where they need not
    be sent. Raises RecordsError where nothing can be sent: the first batch is damaged, or refused
    by the policy."""

    __slots__ = ("_clock", "_first_offset", "_plan", "_policy", "_records", "_to_magic")

    def __init__(
        self,
        records: Records,
        to_magic: int,
        first_offset: int = 0,
        policy: ConversionPolicy = DEFAULT_POLICY,
        *,
        clock: Clock = perf_counter,
    ) -> None:
        self._records = records
        self._to_magic = to_magic
        self._first_offset = first_offset
        self._policy = policy
        self._clock = clock
        self._plan = plan(records, to_magic, first_offset, policy)

    @property
    def size(self) -> int:
        """Bytes that a send will write, no more and no fewer."""
        return self._plan.size

    @property
    def damage(self) -> RecordsError | None:
        """Why an exact range ends before the records do: damage or a refusal behind what is good,
        or None."""
        return self._plan.damage

    def to_send(self, size_max: int | None = None) -> LazyDownConvertSend:
        """A send of all of it, or of its first `size_max` bytes, from the beginning."""
        return LazyDownConvertSend(
            Converter(self._records, self._to_magic, self._first_offset, self._policy),
            ends(self._records, self._policy, self._to_magic, self._plan),
            self._plan.size if size_max is None else min(self._plan.size, size_max),
            is_exact=self._plan.is_exact,
            clock=self._clock,
        )
