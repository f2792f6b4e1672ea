"""Reads the bytes of a log in a store in blocks, and a few blocks ahead.

While one block is read, the next blocks are requested, so a task waits for the store only once. At
most AHEAD + 2 blocks are in memory.

Not here: where the bytes come from (blobs.py)."""

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from downconvert.spark.errors import SegmentChangedError
from downconvert.storage.errors import CorruptFileError
from records import BatchHeader, CorruptRecordsError
from records.files.source import check_slice, read_headers
from records.formats import BATCH_HEADER_SIZE
from records.units import KiB, MiB

from .blobs import LOG_SIZE_MAX, Blob
from .chunks import Reader
from .stores import ObjectReader

# A request costs money, and CPU time in Arrow's client. So blocks are as large as a task's memory
# allows.
BLOCK_SIZE: Final = 8 * MiB  # bytes
AHEAD: Final = 2  # blocks
# A request for this many bytes takes as long as for a header alone, and returns a few batches.
LOOK_SIZE: Final = 64 * KiB  # bytes

# Free buffers, of all segments that a worker has read. The system clears the pages of a new buffer,
# which costs as much as reading into it.
_free: Final[list[bytearray]] = []


class Blocks:
    """The blocks of a blob that are in memory or requested. For one thread."""

    def __init__(self, blob: Blob, until: int, *, is_rolled: bool = False) -> None:
        """`until`: nothing after this position is read ahead. `is_rolled`: the log does not grow
        any more, so a longer object has replaced it. OSError: the blob cannot be opened."""
        self.name = blob.name
        self.size = blob.size
        self.reader: Reader = blob.open()
        # Data that was encrypted or compressed as one chunk is read as one block.
        self._chunk = BLOCK_SIZE if blob.chunks is None else blob.chunks.size
        self._block = max(BLOCK_SIZE, self._chunk)
        self._ahead = max(1, AHEAD * BLOCK_SIZE // self._block)
        self._until = min(until, blob.size)
        self._is_rolled = is_rolled
        self._found: dict[int, Future[memoryview]] = {}
        self._latest = -1
        self._threads: ThreadPoolExecutor | None = None

    def close(self) -> None:
        for block in self._found.values():
            block.cancel()
        if self._threads is not None:
            self._threads.shutdown(wait=True)
            self._threads = None
        for block in self._found.values():
            self._forget(block)
        self._found.clear()
        self.reader.close()

    def read_into(self, target: memoryview, position: int) -> int:
        """As `Records.read_into`. Before a damaged chunk the read ends. CorruptRecordsError: so few
        bytes are left before that chunk that a header may lead into it."""
        read, end = 0, min(position + len(target), self.size)
        try:
            while position + read < end:
                data = self._from(position + read)[: end - position - read]
                if not len(data):
                    break
                target[read : read + len(data)] = data
                read += len(data)
        except CorruptFileError as error:
            if read < BATCH_HEADER_SIZE:
                raise CorruptRecordsError(error.reason, position + read) from error
        return read

    def _from(self, position: int) -> memoryview:
        """The bytes from a position to the end of its block or, if a chunk in the block is damaged,
        to the end of its chunk. CorruptFileError: this chunk is damaged."""
        number, at = divmod(position, self._block)
        try:
            return self._of(number)[at:]
        except CorruptFileError:
            left = self._chunk - position % self._chunk
            return memoryview(self.reader.read(position, left))

    def _of(self, number: int) -> memoryview:
        if number != self._latest:
            goes_on = number == self._latest + 1
            self._latest = number
            last = number + (self._ahead if goes_on else 0)
            wanted = range(number, last + 1)
            for old in [old for old in self._found if old not in wanted and old != number - 1]:
                self._forget(self._found.pop(old))
            for new in wanted:
                is_wanted = new == number or new * self._block < self._until
                if is_wanted and new not in self._found:
                    self._found[new] = self._submit(new)
        return self._found[number].result()

    def _submit(self, number: int) -> "Future[memoryview]":
        if self._threads is None:
            self._threads = ThreadPoolExecutor(AHEAD + 1)
        start = number * self._block
        size = min(self._block, self.size - start)
        return self._threads.submit(self._read, start, size)

    def _read(self, start: int, size: int) -> memoryview:
        """SegmentChangedError: the object has become shorter, or another one has replaced it."""
        is_replaced = False
        if isinstance(self.reader, ObjectReader):
            data = memoryview(_buffer(min(self._block, self.size)))[:size]
            read = self.reader.read_into(data, start)
            is_replaced = self._is_rolled and self.reader.size not in (None, self.size)
        else:
            data = memoryview(self.reader.read(start, size))
            read = len(data)
        if read < size or is_replaced:
            raise SegmentChangedError(self.name)
        return data

    def _forget(self, block: "Future[memoryview]") -> None:
        """Keeps a block's buffer for reuse, unless a thread may still write into it."""
        if block.cancel() or not block.done() or block.exception() is not None:
            return
        buffer = block.result().obj
        if len(_free) < AHEAD + 2 and isinstance(buffer, bytearray) and len(buffer) == BLOCK_SIZE:
            _free.append(buffer)


def _buffer(size: int) -> bytearray:
    """A buffer of that size. Only buffers of a whole block are reused."""
    if size == BLOCK_SIZE:
        with suppress(IndexError):
            return _free.pop()
    return bytearray(size)


class Direct:
    """Reads a blob without blocks, for a few bytes at a time. For one thread."""

    def __init__(self, blocks: Blocks) -> None:
        self.name = blocks.name
        self.size = blocks.size
        self._blocks = blocks
        self._position = 0  # of the last read
        self._data = b""

    def read_into(self, target: memoryview, position: int) -> int:
        size = min(len(target), max(0, self.size - position))
        at = position - self._position
        if not size:
            return 0
        if not 0 <= at <= len(self._data) - size:
            wanted = min(max(size, LOOK_SIZE), self.size - position)
            try:
                self._data = self._blocks.reader.read(position, wanted)
            except CorruptFileError:  # chunks that are not needed may be damaged
                return self._blocks.read_into(target[:size], position)
            self._position, at = position, 0
        data = self._data[at : at + size]
        target[: len(data)] = data
        return len(data)


class Beginning:
    """The beginning of a gzipped log, decompressed to a file, up to damage. The size of the whole
    log is not known."""

    size = LOG_SIZE_MAX

    def __init__(self, file: int, damage: CorruptFileError) -> None:
        """`file`: the descriptor of the decompressed bytes."""
        self.name = damage.path
        self._file = file
        self._damage = damage

    def close(self) -> None:
        os.close(self._file)

    def read_into(self, target: memoryview, position: int) -> int:
        """As `Blocks.read_into`."""
        read = os.preadv(self._file, [target], position)
        if read < min(len(target), BATCH_HEADER_SIZE):
            raise CorruptRecordsError(self._damage.reason, position + read) from self._damage
        return read


class RangeRecords:
    """A range of a log in a store: the `Records` of records/files/source.py."""

    __slots__ = ("_blocks", "_origin", "_size")

    def __init__(self, blocks: Blocks | Direct | Beginning, origin: int, size: int) -> None:
        self._blocks = blocks
        self._origin = origin
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    @property
    def origin(self) -> int:
        return self._origin

    @property
    def name(self) -> str:
        return self._blocks.name

    @property
    def view(self) -> None:
        return None

    def read_into(self, target: memoryview, position: int) -> int:
        if position < 0:
            raise ValueError(f"a read at {position}: negative position")
        target = target[: max(0, self._size - position)]
        return self._blocks.read_into(target, self._origin + position)

    def batches(self) -> Iterator[BatchHeader]:
        return read_headers(self)

    def slice(self, position: int, size: int) -> "RangeRecords":
        check_slice(self, position, size)
        return RangeRecords(self._blocks, self._origin + position, min(size, self._size - position))
