"""How large batches will be when they are compressed again, without compressing them.

The first batch of a run is converted, and kept until it is sent: it shows by how much its size
changes from one codec to the other. The others are predicted from their sizes, with a margin: what
is predicted too large is padded, and what is predicted too small leaves batches to the next fetch.

Where there are few bytes, all batches are converted and kept, so that a small answer is whole and
has no padding: a client that fetches a small topic gets all of it at once.

Not here: what is promised for the rest (plan.py), keeping the promise (padded.py)."""

from collections.abc import Iterator
from math import ceil
from typing import Final, TypeAlias

from records import backend
from records.errors import RecordsError
from records.formats import (
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    MESSAGE_HEAD,
    MESSAGE_OVERHEAD,
    V1,
    V2,
    Codec,
)
from records.kernel import Transcoder
from records.units import KiB

from .compressed import NOTHING, CompressedEntries, CompressedEntry
from .direct import source_of
from .kept_wrappers import KeptWrapper
from .output import MeasuredOutput
from .request import Request
from .window import LogWindow

# Added to what is predicted. One batch says little about the next few, and a misprediction of few
# costs much (padding is sent in the place of a batch that does not fit). Among many, errors even
# out.
MARGIN: Final = 0.02
MARGIN_OF_FEW: Final = 0.08
TELLING_SHARE: Final = 0.8
SMALL: Final = 128 * KiB  # of records: all of their messages are made, as long as they can be kept
HEAD: Final = MESSAGE_OVERHEAD[V1]  # of a message; what is compressed comes on top

ALIKE_MAX: Final = 4096  # batches that are predicted in a step: a header takes a quarter of a us

_UNLIMITED: Final = 2**63 - 1
Counted: TypeAlias = tuple[int, int, int]  # records, batches and temporary bytes


class Run:
    """Batches one after the other that are all compressed again, or convert to nothing.

    size: bytes of the messages that were measured; first_size: those of its first batch.
    count: batches that were not, and are predicted."""

    __slots__ = (
        "_bodies",
        "_first_end",
        "_ratios",
        "count",
        "end",
        "first_size",
        "position",
        "size",
    )

    def __init__(self, position: int, end: int) -> None:
        self.position = position
        self.end = self._first_end = end
        self.size = self.first_size = 0
        self.count = 0
        self._ratios: dict[Codec, float] = {}
        self._bodies: dict[float, int] = {}  # compressed bytes that are predicted, by ratio

    @property
    def is_exact(self) -> bool:
        return not self.count

    @property
    def promise(self) -> int:
        """Bytes to be promised for all of it."""
        margin = MARGIN + MARGIN_OF_FEW / (self.count + 1)
        predicted = HEAD * self.count + sum(r * size for r, size in self._bodies.items())
        return self.size + ceil(predicted * (1 + margin))

    def knows(self, codec: Codec) -> bool:
        """Whether a batch of that codec was measured that tells about others."""
        return codec in self._ratios

    def predict(self, codec: Codec, count: int, size: int) -> None:
        """Adds so many batches, of a codec that it knows, with so many compressed bytes."""
        ratio = self._ratios[codec]
        self._bodies[ratio] = self._bodies.get(ratio, 0) + size
        self.count += count

    def learn(self, entry: CompressedEntry, size: int, share: float) -> None:
        """Adds a batch that was measured, of whose records a share was kept. If that is small, the
        batch says nothing about others: few records compress worse than many."""
        self.first_size = self.first_size or size
        self.size += size
        if share >= TELLING_SHARE:
            self._ratios[entry.codec] = max(size - HEAD, 1) / (max(body_size(entry), 1) * share)

    @property
    def rest(self) -> tuple[int, int]:
        """Position and size of what comes after its first batch."""
        return self._first_end, self.end - self._first_end


def body_size(entry: CompressedEntry) -> int:
    """About how many compressed bytes there are in it."""
    head = BATCH_HEADER_SIZE if entry.magic == V2 else MESSAGE_OVERHEAD[entry.magic]
    return entry.size - head


class PredictedEntries:
    """Takes the place of CompressedEntries while an answer is planned.

    What is compressed again yields no size: it is part of a run, which `take` ends. Under a policy
    without padding there are no runs. kept: messages made on the way, by the positions of their
    entries. before_damage: bytes of good messages of an entry that turned out to be damaged."""

    def __init__(
        self,
        request: Request,
        window: LogWindow,
        output: MeasuredOutput,
        transcoder: Transcoder,
        entries: CompressedEntries,
    ) -> None:
        self._request = request
        self._window = window
        self._output = output
        self._transcoder = transcoder
        self._entries = entries
        limit = request.policy.wrapper_size_max or _UNLIMITED
        self._size_max = limit if request.policy.predicts else 0
        self._keeps_all = window.records.size <= SMALL
        self._source = source_of(window.records)
        self._run: Run | None = None
        self.kept: dict[int, KeptWrapper] = {}
        self.before_damage = 0
        self._rest = NOTHING

    def take(self) -> Run | None:
        """Ends the run, and returns it, if there is one."""
        run, self._run = self._run, None
        return run

    def begin(self, entry: CompressedEntry) -> int | None:
        """As CompressedEntries.begin, but for what is compressed again. An entry that is larger
        than a compressed message should be may hold records that are sent plainly, which cannot be
        padded: it is measured, and is not part of a run."""
        if entry.target_codec is Codec.NONE or entry.size > self._size_max:
            size = self._entries.begin(entry)
            self._rest = self._entries.rest()
            return size
        run, position = self._run, self._window.position
        share = self._share_kept(entry)
        if run is not None and not share:
            run.end = position + entry.size
            return 0
        if run is not None and not self._keeps_all and run.knows(entry.codec):
            count, alike = self._alike_after(entry)
            body = body_size(entry) + alike - count * BATCH_HEADER_SIZE
            run.predict(entry.codec, 1 + count, body)
            run.end = position + entry.size + alike
            self._window.advance(alike)  # and past the entry itself, as of any other
            if count < ALIKE_MAX:
                return 0
            self._rest = iter((0,))  # a step ends here
            return None
        counted, before = self._counted(), self._output.wrapper_bytes
        begun = self._entries.begin(entry)
        if begun is None:
            self._rest = self._measure_rest(entry, counted, before)
            return None
        return self._measured(entry, begun, counted, before, is_made=True)

    def rest(self) -> Iterator[int]:
        """As CompressedEntries.rest: what `begin` has left, in steps. Yields no size but of plain
        messages."""
        return self._rest

    def _alike_after(self, entry: CompressedEntry) -> tuple[int, int]:
        """The v2 batches after an entry for as long as they are of its codec, and nothing has to be
        decided or may be wrong: how many there are, and their bytes. The kernel would stop at each
        otherwise."""
        window = self._window
        position = window.position + entry.size
        wanted = entry.codec, self._request.first_offset, self._size_max, ALIKE_MAX
        if entry.magic < V2:
            return 0, 0
        if self._source is not None:
            return self._source.call(backend.count_alike, position, window.records.size, *wanted)
        # What is in the window, without the entry that ends after it.
        start = window.start + entry.size
        if start > window.filled:
            return 0, 0
        return backend.count_alike(window.source, start, window.filled, *wanted)

    def _measure_rest(self, entry: CompressedEntry, counted: Counted, before: int) -> Iterator[int]:
        size = 0
        try:
            for piece in self._entries.rest():
                size += piece
                yield 0
        except RecordsError:
            self.before_damage = size
            raise
        yield self._measured(entry, size, counted, before, is_made=False)

    def _measured(
        self, entry: CompressedEntry, size: int, counted: Counted, before: int, *, is_made: bool
    ) -> int:
        """The size of an entry that is not part of a run, else 0. `counted`, `before`: records and
        bytes before it. `is_made`: its message is the output's last."""
        output, position = self._output, self._window.position
        if output.wrapper_bytes - before != size:
            return size  # there are plain messages in it
        if not size:
            return 0
        run = self._run
        if run is None:
            run = self._run = Run(position, position + entry.size)
        run.end = position + entry.size
        records, batches, temporary = (
            after - before for after, before in zip(self._counted(), counted, strict=True)
        )
        run.learn(entry, size, self._share_kept(entry, records))
        if is_made:
            kept = KeptWrapper(output.last, records, batches, temporary)
            if kept.keep():
                self.kept[position] = kept
        return 0

    def _counted(self) -> Counted:
        """Records, batches and temporary bytes so far."""
        records, batches, *temporary = self._transcoder.totals
        return records, batches, sum(temporary) + self._entries.temporary_bytes

    def _share_kept(self, entry: CompressedEntry, records: int | None = None) -> float:
        """Which share of an entry's records is kept, as far as its head tells; 0.0: nothing. With
        `records`: which share so many records are."""
        window, first_offset = self._window, self._request.first_offset
        if entry.magic < V2:
            offset: int = MESSAGE_HEAD[entry.magic].unpack_from(window.source, window.start)[0]
            return float(offset >= first_offset)
        header = BATCH_HEADER.unpack_from(window.source, window.start)
        last_offset, count = header[0] + header[6], header[12]
        if count <= 0 or last_offset < first_offset:
            return 0.0
        return 1.0 if records is None else min(records / count, 1.0)
