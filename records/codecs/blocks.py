"""An encoder for framings that cut data into blocks of one size, each compressed separately.

Not here: the blocks (lz4.py, snappy.py)."""

from collections.abc import Callable, Sequence

from records.kernel import Buffer


class BlockEncoder:
    """Writes header, blocks, end mark. Blocks are cut at the same places for any split of the data.

    It buffers less than one block."""

    __slots__ = ("_block", "_block_size", "_end_mark", "_held", "_out")

    def __init__(
        self,
        header: bytes,
        block_size: int,
        block: Callable[[Buffer], Sequence[Buffer]],
        end_mark: bytes = b"",
    ) -> None:
        self._block_size = block_size
        self._block = block  # returns the parts of a written block
        self._end_mark = end_mark
        self._held = bytearray()  # less than a block
        self._out: list[Buffer] = [header]

    def write(self, data: Buffer) -> bytes:
        """Takes `data`, and returns the full blocks, with the header before the first."""
        size = self._block_size
        at = 0
        if self._held:
            at = min(size - len(self._held), len(data))
            self._held += data[:at]
            if len(self._held) < size:
                return b""
            self._out += self._block(self._held)
            self._held = bytearray()
        whole_end = len(data) - (len(data) - at) % size
        view = memoryview(data)
        for block_at in range(at, whole_end, size):
            self._out += self._block(view[block_at : block_at + size])
        self._held += view[whole_end:]
        return self._given()

    def finish(self) -> bytes:
        """The incomplete block, and the end mark."""
        if self._held:
            self._out += self._block(self._held)
        self._out.append(self._end_mark)
        return self._given()

    def all(self, data: Buffer) -> bytes:
        """`data` as a whole stream."""
        return self.write(data) + self.finish()

    def _given(self) -> bytes:
        given, self._out = b"".join(self._out), []
        return given
