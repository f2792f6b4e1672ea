"""The bytes that clients sent, in order, reassembled from captured TCP segments.

Segments arrive late, twice, overlapping, or never. An early segment is kept until those before it
have arrived. If too much is kept, the missing ones count as lost. The number of connections and of
kept bytes is limited, because a capture can hold any number of either.

Not here: the contents of the bytes (frames.py)."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from records.units import KiB, MiB

from .evidence import Problems
from .frames import Frames, RequestHead
from .packets import SYN, Segment

CONNECTIONS_MAX: Final = 10_000
KEPT_MAX: Final = 256 * KiB  # bytes of one connection's early segments
KEPT_COUNT_MAX: Final = 256  # segments
ALL_KEPT_MAX: Final = 64 * MiB  # bytes, of all connections
# Further ahead than any TCP window: another connection with the same ports, or garbage.
AHEAD_MAX: Final = 64 * MiB

_Key: TypeAlias = tuple[str, int, str, int]  # addresses and ports, the client's first
Received: TypeAlias = tuple[str, RequestHead]  # a client's address, and its request


class _Piece(NamedTuple):
    data: bytes
    size: int  # bytes that were sent; those that were not captured are lost


class _Stream:
    """One connection's bytes towards the broker."""

    __slots__ = ("_next", "early", "first", "frames", "kept")

    def __init__(self, sequence: int, problems: Problems, *, is_new: bool) -> None:
        self.first = self._next = sequence
        self.early: dict[int, _Piece] = {}  # by first byte, relative to the next one
        self.kept = 0
        self.frames = Frames(problems, is_new=is_new)

    def take(self, segment: Segment) -> Iterator[RequestHead]:
        ahead = self.ahead(segment.sequence)
        piece = _Piece(segment.data, segment.size)
        if ahead <= 0:
            yield from self._push(piece, -ahead)
            yield from self._drain()
        else:
            at = segment.sequence
            known = self.early.get(at)
            if known is None or known.size < piece.size:
                self.kept += len(piece.data) - (len(known.data) if known else 0)
                self.early[at] = piece
            while self.kept > KEPT_MAX or len(self.early) > KEPT_COUNT_MAX:
                yield from self.skip()

    def ahead(self, sequence: int) -> int:
        """The distance from the next byte to a sequence number, with wrapping. It is negative for
        earlier bytes."""
        return (sequence - self._next + (1 << 31)) % (1 << 32) - (1 << 31)

    def skip(self) -> Iterator[RequestHead]:
        """Counts missing bytes as lost, up to the first kept segment."""
        lost = self.ahead(min(self.early, key=self.ahead))
        self.frames.problems.add("gaps in what clients sent")
        self.frames.lose(lost)
        self._next = (self._next + lost) % (1 << 32)
        yield from self._drain()

    def finish(self) -> Iterator[RequestHead]:
        while self.early:
            yield from self.skip()

    def _push(self, piece: _Piece, known: int) -> Iterator[RequestHead]:
        """Passes on the new part of a piece: after its first `known` bytes."""
        if known >= piece.size:
            return
        new = piece.data[known:]
        self._next = (self._next + piece.size - known) % (1 << 32)
        yield from self.frames.feed(new)
        missing = piece.size - known - len(new)
        if missing:
            self.frames.lose(missing)

    def _drain(self) -> Iterator[RequestHead]:
        while self.early:
            at = min(self.early, key=self.ahead)
            if (ahead := self.ahead(at)) > 0:
                return
            piece = self.early.pop(at)
            self.kept -= len(piece.data)
            yield from self._push(piece, -ahead)


class Streams:
    """All connections of a capture."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._streams: OrderedDict[_Key, _Stream] = OrderedDict()
        self.kept = 0

    def __len__(self) -> int:
        return len(self._streams)

    def take(self, segment: Segment) -> Iterator[Received]:
        """Takes a client's segment. A closed connection is not forgotten, because a segment may be
        sent again."""
        key = segment.source, segment.source_port, segment.target, segment.target_port
        stream = self._streams.get(key)
        is_new = bool(segment.flags & SYN)
        if stream is not None and (
            (is_new and stream.first != segment.sequence)
            or abs(stream.ahead(segment.sequence)) > AHEAD_MAX
        ):
            yield from self._forget(key)  # the ports are used by a new connection
            stream = None
        if stream is None:
            if not segment.size and not is_new:
                return
            stream = _Stream(segment.sequence, self._problems, is_new=is_new)
            self._streams[key] = stream
        self._streams.move_to_end(key)
        if segment.size:
            before = stream.kept
            yield from _received(key, stream.take(segment))
            self.kept += stream.kept - before
        while self.kept > ALL_KEPT_MAX or len(self._streams) > CONNECTIONS_MAX:
            self._problems.add("connections that were forgotten, to bound memory")
            yield from self._forget(next(iter(self._streams)))

    def end(self) -> Iterator[Received]:
        """No more segments come."""
        while self._streams:
            yield from self._forget(next(iter(self._streams)))

    def _forget(self, key: _Key) -> Iterator[Received]:
        stream = self._streams.pop(key)
        self.kept -= stream.kept
        yield from _received(key, stream.finish())


def _received(key: _Key, request: Iterator[RequestHead]) -> Iterator[Received]:
    return ((key[0], one) for one in request)
