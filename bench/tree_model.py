"""Generates brokers' directories from seeds. They hold copies of one partition that lag, were
truncated, cleaned, cut off or damaged, or belong to another topic.

The model knows every record: which records must be read, which some copy still has, and which may
be missing silently, because nothing that is left shows that they existed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from downconvert.storage.names import Kind, file_name
from records.batches.builder import build, build_marker
from records.batches.control import ControlRecordType
from records.formats import BATCH_HEADER_SIZE, V2
from records.record import Record
from tests.downconvert.storage.logs import indexed_segment

NAME: Final = "a-0"
TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
DAY: Final = 86_400_000
KEYS: Final = 6


@dataclass(frozen=True)
class Batch:
    """Records by offset, up to `last`. Without records it is a control batch."""

    base: int
    last: int
    epoch: int
    records: tuple[tuple[int, bytes, bytes], ...]  # offset, key, value

    @property
    def data(self) -> bytes:
        if not self.records and self.base == self.last:
            return build_marker(
                ControlRecordType.COMMIT,
                offset=self.base,
                timestamp=DAY,
                producer_id=1,
                leader_epoch=self.epoch,
            )
        found = [Record(at, DAY, key=key, value=value) for at, key, value in self.records]
        return build(
            found, magic=V2, base_offset=self.base, last_offset=self.last, leader_epoch=self.epoch
        )


@dataclass
class Piece:
    """A segment's file: its batches, and how it was damaged."""

    base: int
    batches: list[Batch]
    is_indexed: bool
    keep: int | None = None  # bytes that were copied; None: all
    broken: dict[int, str] = field(default_factory=dict)  # by batch number: "body" or "header"
    is_gone: bool = False

    @property
    def is_hurt(self) -> bool:
        return self.keep is not None or bool(self.broken) or self.is_gone

    def whole(self) -> Iterator[tuple[int, Batch]]:
        """The batches that were copied completely, with their numbers."""
        size = 0
        for number, one in enumerate(self.batches):
            size += len(one.data)
            if not self.is_gone and (self.keep is None or size <= self.keep):
                yield number, one

    def readable(self) -> Iterator[Batch]:
        """The batches that a reader can find and trust."""
        for number, one in self.whole():
            if self.broken.get(number) == "header" and not self.is_indexed:
                return
            if number not in self.broken:
                yield one


@dataclass
class Copy:
    """A broker's copy. `is_valid`: all of it is also in the leader's log."""

    broker: str
    pieces: list[Piece]
    epochs: list[tuple[int, int]]
    is_valid: bool
    end: int
    cleaned: int = 0
    deleted: int = 0  # the log start offset after a DeleteRecords request

    def covers(self, offset: int) -> bool:
        """Whether an offset is within the copy, as it was before it was damaged."""
        return self.pieces[0].base <= offset < self.end

    def held(self) -> set[int]:
        """The offsets of the records that the copy had before it was damaged."""
        batches = (one for piece in self.pieces for one in piece.batches)
        return {offset for one in batches for offset, _, _ in one.records}

    def present(self) -> list[Piece]:
        return [piece for piece in self.pieces if not piece.is_gone]


@dataclass
class Tree:
    """The copies of a partition. `truth`: the records of the leader's log before anything was
    removed, by offset."""

    seed: int
    truth: dict[int, bytes]
    copies: list[Copy]
    is_refused: bool = False  # two topics of one name

    @property
    def is_hurt(self) -> bool:
        return any(piece.is_hurt for copy in self.copies for piece in copy.pieces)

    def seen(self) -> tuple[int, int]:
        """The start and end offset of the log that the remaining files show."""
        valid = [copy for copy in self.copies if copy.is_valid and copy.present()]
        floor = max((copy.deleted for copy in self.copies), default=0)
        start = min((copy.present()[0].base for copy in valid), default=0)
        ends = [0]
        for copy in valid:
            last = copy.present()[-1]
            ends.append(last.base)
            for number, one in last.whole():
                is_broken = last.broken.get(number) == "header"
                if is_broken and (not last.is_indexed or one is last.batches[-1]):
                    break  # the end of such a copy is unknown
                ends.append(one.last + 1)
        return max(floor, start), max(ends)

    def had(self) -> set[int]:
        """The records that copies of the leader's log had. Excludes those that a cleaner has
        removed from a copy, and those outside the log that the remaining files show."""
        start, end = self.seen()
        found: set[int] = set()
        cleaned: set[int] = set()
        for copy in self.copies:
            if copy.pieces:
                held = copy.held()
                found |= held if copy.is_valid else set()
                cleaned |= {at for at in self.truth if copy.covers(at)} - held
        return {offset for offset in found - cleaned if start <= offset < end}

    def readable(self) -> set[int]:
        """The records of `had` that a copy still has and a reader can find."""
        found = {
            offset
            for copy in self.copies
            if copy.is_valid
            for piece in copy.pieces
            for one in piece.readable()
            for offset, _, _ in one.records
        }
        return found & self.had()


def generated(seed: int) -> Tree:
    """Generates a tree. The same seed gives the same tree."""
    chance = random.Random(seed)
    is_compacted = chance.random() < 0.3
    log: list[Batch] = []
    epochs: list[tuple[int, int]] = []
    stale: list[tuple[list[Batch], list[tuple[int, int]]]] = []
    epoch = 0
    for _ in range(chance.randrange(1, 4)):
        if log and chance.random() < 0.6:  # this leader lacks records of the previous one
            stale.append((list(log), list(epochs)))
            del log[chance.randrange(max(1, len(log) - 6), len(log) + 1) :]
        start = log[-1].last + 1 if log else 0
        while epochs and epochs[-1][1] >= start:
            epochs.pop()
        epochs.append((epoch, start))
        log += appended(chance, start, epoch, chance.randrange(2, 25))
        epoch += chance.randrange(1, 3)
    truth = {offset: value for one in log for offset, _, value in one.records}
    copies = [_copy(chance, "b1", log, epochs, is_compacted=is_compacted)]
    for number in range(chance.randrange(0, 3)):
        broker = f"b{number + 2}"
        if stale and chance.random() < 0.3:
            before, noted = stale[chance.randrange(len(stale))]
            is_prefix = log[: len(before)] == before
            copies.append(
                _copy(chance, broker, before, noted, is_valid=is_prefix, is_compacted=is_compacted)
            )
            continue
        part = log[: chance.randrange(len(log) // 2, len(log) + 1)]
        noted = [one for one in epochs if part and one[1] <= part[-1].last]
        copies.append(_copy(chance, broker, part, noted, is_compacted=is_compacted))
    tree = Tree(seed, truth, copies)
    if chance.random() < 0.7:
        _hurt(chance, tree)
    tree.is_refused = chance.random() < 0.03
    return tree


def appended(chance: random.Random, start: int, epoch: int, count: int) -> list[Batch]:
    found = []
    for _ in range(count):
        size = chance.randrange(1, 5)
        if chance.random() < 0.1:
            found.append(Batch(start, start, epoch, ()))
            start += 1
            continue
        records = tuple(
            (at, f"k{chance.randrange(KEYS)}".encode(), f"{epoch}/{at}".encode())
            for at in range(start, start + size)
        )
        found.append(Batch(start, start + size - 1, epoch, records))
        start += size
    return found


def _copy(
    chance: random.Random,
    broker: str,
    log: list[Batch],
    epochs: list[tuple[int, int]],
    *,
    is_valid: bool = True,
    is_compacted: bool = False,
) -> Copy:
    is_indexed = is_compacted or chance.random() < 0.6
    pieces: list[Piece] = []
    for one in log:
        if not pieces or (pieces[-1].batches and chance.random() < 0.2):
            pieces.append(Piece(one.base, [], is_indexed))
        pieces[-1].batches.append(one)
    copy = Copy(broker, pieces, list(epochs), is_valid, log[-1].last + 1 if log else 0)
    if is_compacted and len(pieces) > 1:
        cleaned = chance.randrange(1, len(pieces))
        copy.cleaned = pieces[cleaned].base
        _clean(pieces[:cleaned], copy.cleaned)
    if len(pieces) > 1 and chance.random() < 0.3:  # retention
        del pieces[: chance.randrange(1, len(pieces))]
    if pieces and chance.random() < 0.1:
        first = pieces[0].batches
        if first:
            copy.deleted = first[-1].last
    return copy


def _clean(pieces: list[Piece], end: int) -> None:
    """Compacts segments: keeps the last record of each key, if its offset is below `end`."""
    latest = {
        key: offset for piece in pieces for one in piece.batches for offset, key, _ in one.records
    }
    kept = {offset for offset in latest.values() if offset < end}
    for piece in pieces:
        piece.batches = [
            left
            for one in piece.batches
            for left in [
                Batch(
                    one.base,
                    one.last,
                    one.epoch,
                    tuple(record for record in one.records if record[0] in kept),
                )
            ]
            if left.records
        ]


def _hurt(chance: random.Random, tree: Tree) -> None:
    for copy in tree.copies:
        for number, piece in enumerate(copy.pieces):
            is_tellable = not copy.cleaned or piece.base >= copy.cleaned
            if chance.random() > 0.25 or not piece.batches:
                continue
            size = sum(len(one.data) for one in piece.batches)
            what = chance.choice(["cut", "cut", "body", "header", "gone"])
            if what == "cut":
                piece.keep = chance.randrange(size)
            elif what == "gone" and len(copy.present()) > 1 and (is_tellable or not number):
                piece.is_gone = True
            elif what in ("body", "header"):
                piece.broken[chance.randrange(len(piece.batches))] = what


def written(tree: Tree, path: Path, *, is_healed: bool = False) -> None:
    """Writes the directories. `is_healed`: as they were before the damage."""
    chance = random.Random(tree.seed)
    for copy in tree.copies:
        directory = path / copy.broker / NAME
        directory.mkdir(parents=True, exist_ok=True)
        for piece in copy.pieces:
            _write(directory, piece, is_healed=is_healed)
        noted = "".join(f"{epoch} {start}\n" for epoch, start in copy.epochs)
        text = f"0\n{len(copy.epochs)}\n{noted}"
        (directory / "leader-epoch-checkpoint").write_text(text)
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
        if copy.cleaned:
            text = f"0\n1\na 0 {copy.cleaned}\n"
            (directory.parent / "cleaner-offset-checkpoint").write_text(text)
        if copy.deleted:
            text = f"0\n1\na 0 {copy.deleted}\n"
            (directory.parent / "log-start-offset-checkpoint").write_text(text)
        if chance.random() < 0.3:
            _stray(directory, tree)
    if tree.is_refused:
        directory = path / "b9" / NAME
        directory.mkdir(parents=True)
        (directory / file_name(0, Kind.LOG)).write_bytes(b"")
        text = f"version: 0\ntopic_id: {TOPIC_ID[:-1]}g"
        (directory / "partition.metadata").write_text(text)


def _stray(directory: Path, tree: Tree) -> None:
    for folder in (directory, directory.parent):
        (folder / "rsync.log").write_bytes(b"sent 12 bytes")
    (directory / file_name(3, Kind.LOG)).with_suffix(".log.deleted").write_bytes(b"?")
    if tree.seed % 2:
        for suffix in ("delete", "future", "stray"):
            other = directory.with_name(f"{NAME}.{'0' * 32}-{suffix}")
            other.mkdir(exist_ok=True)
            (other / file_name(0, Kind.LOG)).write_bytes(b"?")


def _write(directory: Path, piece: Piece, *, is_healed: bool) -> None:
    datas = [one.data for one in piece.batches]
    log = directory / file_name(piece.base, Kind.LOG)
    if piece.is_gone and not is_healed:
        return
    if piece.is_indexed:
        indexed_segment(directory, piece.base, *datas)
    data = bytearray(b"".join(datas))
    if not is_healed:
        for number, what in piece.broken.items():
            at = sum(map(len, datas[:number]))
            if what == "header":
                data[at : at + BATCH_HEADER_SIZE] = bytes(BATCH_HEADER_SIZE)
            else:
                data[at + BATCH_HEADER_SIZE] ^= 1
        del data[len(data) if piece.keep is None else piece.keep :]
    log.write_bytes(data)
