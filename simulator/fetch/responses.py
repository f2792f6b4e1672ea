"""The send of a fetch response, in each mode.

*lazy* converts while it sends. *eager* converts before it sends, as Kafka did before 2.0.
*zero-copy* does not convert: current consumers get this, and it is the lower bound for the
others."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

from downconvert import LazyDownConvertRecords, eager
from downconvert.conversion.policies import parse_policy
from records import FileRecords
from records.files.channel import Write, writer
from records.files.sends import Send
from simulator.modes import Mode

from .fetches import Fetch
from .options import Options


class BytesSend:
    """Sends bytes that are in memory."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._left = memoryview(data)
        self._channel: object = None
        self._write: Write | None = None

    @property
    def completed(self) -> bool:
        return not self._left

    def write_to(self, channel: object, budget: int | None = None) -> int:  # noqa: ARG002
        if self._write is None or channel is not self._channel:
            self._write, self._channel = writer(channel), channel
        written = self._write(self._left)
        self._left = self._left[written:]
        return written


class Responses:
    """Makes the sends of one mode. Holds only open files."""

    def __init__(self, mode: Mode, paths: Sequence[Path], options: Options) -> None:
        self.mode: Mode = mode
        self._to_magic = options.to_magic
        policy = parse_policy(options.policy)
        # An estimated size may cut off records. An eager conversion knows the true size.
        self._exact = replace(policy, size="exact")
        self._policy = policy if mode == "lazy" else self._exact
        self._stack = ExitStack()
        self.files = [self._stack.enter_context(FileRecords.open(path)) for path in paths]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def records(self, fetch: Fetch) -> FileRecords:
        """The range of a file that a fetch requests."""
        return self.files[fetch.file].slice(fetch.position, fetch.size)

    def lazy(self, fetch: Fetch) -> LazyDownConvertRecords:
        return LazyDownConvertRecords(
            self.records(fetch), self._to_magic, fetch.first_offset, self._policy
        )

    def eager(self, fetch: Fetch) -> bytes:
        return eager(self.records(fetch), self._to_magic, fetch.first_offset, self._exact)

    def __call__(self, fetch: Fetch) -> Send:
        makers: dict[Mode, Callable[[], Send]] = {
            "lazy": lambda: self.lazy(fetch).to_send(),
            "eager": lambda: BytesSend(self.eager(fetch)),
            "zero-copy": lambda: self.records(fetch).to_send(),
        }
        return makers[self.mode]()
