"""Generates brokers' directories from seeds. They hold copies of one partition that lag, were
truncated, cleaned, cut off or damaged, or belong to another topic.

The model knows every record. It knows which records must be read, which ones some copy still has,
and which ones may be missing without a report, because no remaining file shows that they existed.

Not here: writing the directories (tree_files.py)."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from records.formats import V2

from .tree_log import PRODUCERS, Batch, Transactions, appended, transactions

NAME: Final = "a-0"
TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
# Seeds from here on are varied (tree_damage.py). Earlier ones stay as they are: tests name them.
VARIED: Final = 3_000_000
# Kinds of damage to a batch. If only the body or the offset is damaged, the header still leads to
# the next batch.
BROKEN: Final = ("body", "header", "zeros", "noise")
HEADERLESS: Final = (*BROKEN[1:], "size")
WRONG_EPOCH: Final = 64  # of a leader, in a damaged header; all right ones are lower


@dataclass
class Piece:
    """A segment's file: its batches and its damage."""

    base: int
    batches: list[Batch]
    is_indexed: bool
    keep: int | None = None  # bytes that were copied; None: all
    # by batch number: BROKEN, "offset", "size" or "epoch"
    broken: dict[int, str] = field(default_factory=dict)
    flips: dict[int, int] = field(default_factory=dict)  # by batch number, the bit of its offset
    is_gone: bool = False
    index_damage: int | None = None  # the seed of the damage to its indexes
    is_gzipped: bool = False
    replaces: tuple["Piece", ...] = ()  # a cleaner was about to replace these by it
    spare: int = 0  # zeros after the batches: its file was preallocated

    @property
    def is_hurt(self) -> bool:
        return self.keep is not None or bool(self.broken) or self.is_gone

    @property
    def has_index(self) -> bool:
        """Whether an index leads past a damaged batch header."""
        return self.is_indexed and self.index_damage is None and not self.is_gzipped

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
            if self.broken.get(number) in HEADERLESS and not self.has_index:
                return
            is_shown = self.broken.get(number) == "epoch" and number + 1 < len(self.batches)
            if is_shown or number not in self.broken:  # the next batch shows the epoch
                yield one

    def hides_end(self, number: int) -> bool:
        """Whether the end of a log that ends with this segment is unknown, because a batch is
        damaged."""
        if self.broken.get(number) == "offset":
            return number == len(self.batches) - 1
        return self.broken.get(number) in HEADERLESS and not self.is_found_after(number)

    def is_found_after(self, number: int) -> bool:
        """Whether the index leads to a sound batch after this one: it has the right checksum, or
        another batch or the end of the log follows it."""
        left = [self.broken.get(at, "") for at, _ in self.whole()][number + 1 :]
        ends_log = self.keep is None and not self.spare
        is_followed = [*(how not in HEADERLESS for how in left[1:]), ends_log]
        return self.has_index and any(
            how in ("", "offset") or (how == "body" and is_one)
            for how, is_one in zip(left, is_followed, strict=False)
        )


@dataclass
class Copy:
    """A broker's copy. `is_valid`: all of it is also in the leader's log. `log`: its batches before
    any were removed. `packing`, `moved_as`: its place (tree_places.py)."""

    broker: str
    pieces: list[Piece]
    epochs: list[tuple[int, int]]
    is_valid: bool
    log: list[Batch]
    cleaned: int = 0
    deleted: int = 0  # the log start offset after a DeleteRecords request
    has_snapshots: bool = False
    lost_notes: dict[str, str] = field(default_factory=dict)  # small files, and their damage
    packing: str = ""
    moved_as: str = ""
    high_watermark: int | None = None  # in the broker's checkpoint; None: there is none

    def covers(self, offset: int) -> bool:
        """Whether an offset was within the copy before its damage."""
        return self.pieces[0].base <= offset < self.end

    @property
    def end(self) -> int:
        return self.log[-1].last + 1 if self.log else 0

    @property
    def is_misindexed(self) -> bool:
        return any(piece.index_damage is not None for piece in self.pieces)

    def held(self) -> set[int]:
        """The offsets of the records that the copy had before its damage."""
        batches = (one for piece in self.pieces for one in piece.batches)
        return {offset for one in batches for offset, _, _ in one.records}

    def hidden(self) -> set[int]:
        """The offsets that damage hides at the end of the copy: no index leads to them."""
        last = self.present()[-1:]
        whole = list(last[0].whole()) if last else []
        broken = (number for number, _ in whole if last[0].hides_end(number))
        hidden = whole[next(broken, len(whole)) :]
        are_zeros = [
            last[0].broken.get(number) == "zeros"
            or (last[0].broken.get(number) == "header" and one.magic != V2)
            for number, one in hidden
        ]
        if all(are_zeros):  # zeros up to the end count as never written
            return set()
        if last[0].index_damage is not None:  # a damaged index may lead to such zeros
            while are_zeros.pop():
                hidden.pop()
        return {offset for _, one in hidden for offset, _, _ in one.records}

    def present(self) -> list[Piece]:
        return [piece for piece in self.pieces if not piece.is_gone]


@dataclass
class Tree:
    """The copies of a partition. `log`: the leader's log before anything was removed. `lost`:
    copies without any file before the repair."""

    seed: int
    log: list[Batch]
    copies: list[Copy]
    is_refused: bool = False  # two topics of one name
    lost: list[Copy] = field(default_factory=list)
    cluster: str = ""  # the id in the brokers' meta.properties; empty: none
    is_encrypted: bool = False  # in tiered storage

    @property
    def truth(self) -> dict[int, bytes | None]:
        """The values of the log's records, by offset."""
        return {offset: value for one in self.log for offset, _, value in one.records}

    def transactions(self, end: int, *, with_snapshots: bool = False) -> Transactions:
        """The transactions of a log with this end offset, as far as the files show them.
        `with_snapshots`: also transactions that snapshots of producers have, although no copy has
        their first records.

        Nothing is read below the start of the log. If no reader can find a batch there, it may have
        been a marker. So it ends all open transactions."""
        start = self.seen()[0]
        readable = {
            one for copy in self.copies for piece in copy.pieces for one in piece.readable()
        }
        held = readable | {
            one
            for copy in self.copies
            for piece in copy.pieces
            for one in piece.batches
            if one.last >= start
        }
        first = min((piece.base for copy in self.copies for piece in copy.present()), default=0)
        found: list[Batch] = []
        for one in self.log:
            if one.last >= end:
                break
            if one in held or with_snapshots or (not one.records and one.last < start):
                found.append(one)
            if first <= one.base and one.last < start and one not in readable:
                found += [replace(one, records=(), producer=who, aborts=False) for who in PRODUCERS]
        return transactions(found)

    @property
    def is_hurt(self) -> bool:
        return any(piece.is_hurt for copy in self.copies for piece in copy.pieces)

    def seen(self) -> tuple[int, int]:
        """The start and end offset of the log, as far as the remaining files show them. A copy that
        has never had a record does not count: a new follower begins at 0, whatever the start of its
        leader's log."""
        valid = [copy for copy in self.copies if copy.is_valid and copy.log and copy.present()]
        floor = max((copy.deleted for copy in self.copies), default=0)
        start = min((copy.present()[0].base for copy in valid), default=0)
        ends = [0]
        for copy in valid:
            last = copy.present()[-1]
            ends.append(last.base)
            for number, one in last.whole():
                if last.hides_end(number):
                    break  # the end of this copy is unknown
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
    share = 0.4 if not is_compacted and chance.random() < 0.4 else 0.0
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
        count = chance.randrange(2, 25)
        log += appended(chance, log, start, epoch, count, transactional=share)
        epoch += chance.randrange(1, 3)
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
    tree = Tree(seed, log, copies)
    if chance.random() < 0.7:
        _hurt(chance, tree)
    tree.is_refused = chance.random() < 0.03
    return tree


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
    copy = Copy(broker, pieces, list(epochs), is_valid, log)
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
            if piece.is_indexed and not copy.cleaned and chance.random() < 0.2:
                piece.index_damage = chance.randrange(2**32)
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
