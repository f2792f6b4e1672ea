"""A model of logs that change while a stream follows them: where each micro-batch must begin, and
which records it must read.

Not here: how a limit or a wait ends a micro-batch (test_changing_logs.py)."""

import os
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from bench.tree.tree_log import Batch, appended, transactions, write_transaction_index
from downconvert.spark.logs.places import Place
from downconvert.storage.names import (
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    OFFSET_MAX,
    PARTITION_METADATA,
    TopicPartition,
)
from records.batch import NONE
from tests.downconvert.storage.logs import indexed_segment, segment

ID: Final = "AAAAAAAAAAAAAAAAAAAAA"
CHANGES: Final = (
    *("grow", "grow", "grow", "grow", "truncate", "truncate"),
    *("retain", "delete", "recreate", "vanish", "lag"),
)


class Gap(NamedTuple):
    """Offsets of a segment that was not copied yet."""

    start: int
    end: int


@dataclass
class ChangingLog:
    """A partition. `history`: all batches since its topic was created. `bases`: of its segments.
    `held_back`: base offsets of segments that are not copied yet."""

    name: TopicPartition
    chance: random.Random
    history: list[Batch] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    bases: list[int] = field(default_factory=lambda: [0])
    held_back: set[int] = field(default_factory=set)
    start: int = 0
    high_watermark: int = 0
    topic: int = 0  # how often the topic was created
    is_there: bool = True

    @property
    def end(self) -> int:
        return self.history[-1].last + 1 if self.history else 0

    @property
    def topic_id(self) -> str:
        return ID + "QgwA"[self.topic % 4]

    def grow(self) -> None:
        epoch, count = self.epochs[-1][0], self.chance.randrange(1, 7)
        for one in appended(
            self.chance, self.history, self.end, epoch, count, transactional=0.3, topic=self.topic
        ):
            if self.chance.random() < 0.3 and one.base > self.bases[-1]:
                self.bases.append(one.base)
            self.history.append(one)
        self.high_watermark = self.chance.randrange(self.high_watermark, self.end + 1)

    def truncate(self) -> None:
        """A new leader lacks some batches, and appends others."""
        first = sum(one.base < self.start for one in self.history)
        del self.history[self.chance.randrange(first, len(self.history) + 1) :]
        self.bases = [base for base in self.bases if base < self.end] or [self.start]
        self.held_back &= set(self.bases[:-1])
        epoch = self.epochs[-1][0] + self.chance.randrange(1, 3)
        self.epochs = [one for one in self.epochs if one[1] < self.end] + [(epoch, self.end)]
        self.high_watermark = min(self.high_watermark, self.end)
        if self.chance.random() < 0.7:
            self.grow()

    def retain(self) -> None:
        """Retention deletes the oldest segments."""
        self.bases = self.bases[self.chance.randrange(len(self.bases)) :]
        self.start = max(self.start, self.bases[0])
        self._set_start(self.start)

    def delete(self) -> None:
        """A DeleteRecords request moves the start into a segment."""
        self._set_start(self.chance.randrange(self.start, self.end + 1))

    def lag(self) -> None:
        """A checkpoint has an earlier high watermark, as after the death of a broker."""
        self.high_watermark = self.chance.randrange(self.start, self.high_watermark + 1)

    def _set_start(self, start: int) -> None:
        self.start = start
        self.held_back = {base for base in self.held_back if base > start}
        self.high_watermark = max(self.high_watermark, start)

    def recreate(self) -> None:
        self.history, self.epochs, self.bases, self.held_back = [], [(0, 0)], [0], set()
        self.start = self.high_watermark = 0
        self.topic += 1
        self.is_there = True
        self.grow()

    def vanish(self) -> None:
        """The partition's directory is removed."""
        self.is_there = False

    def hold_back(self) -> None:
        """A segment within the log is copied later than the next one, or the missing ones come."""
        inner = [base for base in self.bases[1:-1] if base > self.start]
        self.held_back = {base for base in inner if self.chance.random() < 0.3}

    def segments(self) -> list[tuple[int, int, list[Batch]]]:
        """The copied segments: base offset, base offset of the next one, batches."""
        there = [base for base in self.bases if base not in self.held_back]
        ends = dict(zip(self.bases, [*self.bases[1:], OFFSET_MAX], strict=True))
        return [
            (base, after, [one for one in self.history if base <= one.base < ends[base]])
            for base, after in zip(there, [*there[1:], OFFSET_MAX], strict=True)
        ]

    def copied(self) -> list[Batch]:
        return [one for _, _, batches in self.segments() for one in batches]

    def gaps(self, start: int, end: int) -> list[Gap]:
        """The missing offsets from `start` up to `end`. Several missing segments in a row make one
        gap."""
        found = (
            Gap(max(start, batches[-1].last + 1 if batches else base), after)
            for base, after, batches in self.segments()
            if after != OFFSET_MAX
        )
        return [gap for gap in found if gap.start < min(end, gap.end)]

    def readable_until(self, *, at_watermark: bool, committed: bool) -> int:
        limit = self.high_watermark if at_watermark else self.end
        end = min(self.end, limit)
        if committed:
            end = min(end, transactions(self._below(limit)).stable(end))
        return max(self.start, end)

    def _below(self, limit: int) -> list[Batch]:
        return [one for one in self.copied() if one.base < limit]

    def records(self, start: int, end: int, *, committed: bool) -> list[tuple[int, bytes | None]]:
        """The records that were copied, from `start` up to `end`."""
        aborted = transactions(self.copied()).records if committed else ()
        return [
            (at, value)
            for one in self.copied()
            for at, _, value in one.records
            if start <= at < end and at >= self.start and at not in aborted
        ]

    def epoch_before(self, offset: int) -> int:
        """The leader epoch of the record before an offset; -1: its batch is not there."""
        found = (one.epoch for one in self.copied() if one.base < offset <= one.last + 1)
        return next(found, NONE)

    def place_at(self, offset: int, before: Place | None) -> Place:
        """The place at an offset. `before`: the previous place of the stream."""
        epoch = self.epoch_before(offset)
        is_same = before is not None and before.topic_id == self.topic_id
        if epoch == NONE and before is not None and is_same and before.offset == offset:
            epoch = before.epoch
        return Place(offset, epoch, topic_id=self.topic_id)

    def changed_before(self, offset: int, place: Place, read: list[Batch]) -> int:
        """The first offset below `offset` that differs from what was read up to a place; `offset`:
        none. `read`: the log as it was then.

        Nothing shows a difference if the record before the offset is not there any more."""
        if NONE in (self.epoch_before(offset), place.epoch):
            return offset
        pairs = zip(read, self.history, strict=False)
        return next((one.base for one, now in pairs if one != now and one.base < offset), offset)

    def start_for(self, place: Place | None, read: list[Batch]) -> tuple[int, bool]:
        """Where reading begins, and whether records are lost. `place`, `read`: where the stream
        was, and the log as it was then."""
        if place is None:
            return self.start, False
        if place.topic_id != self.topic_id or place.offset < self.start:
            return self.start, True
        at = min(place.offset, self.end)
        changed = self.changed_before(at, place, read)
        return max(self.start, changed), changed < place.offset


def write(path: Path, logs: list[ChangingLog], written_at: int, chance: random.Random) -> None:
    """Writes the logs to an empty directory. `written_at`: the time of all files, in seconds."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    there = [log for log in logs if log.is_there]
    for log in there:
        directory = path / str(log.name)
        directory.mkdir()
        make = chance.choice([segment, indexed_segment])
        aborted = transactions(log.copied()).aborted
        for base, _, batches in log.segments():
            make(directory, base, *(one.data for one in batches))
            if make is indexed_segment:
                write_transaction_index(directory, base, batches, aborted)
        if chance.random() < 0.5:
            text = "".join(f"{epoch} {start}\n" for epoch, start in log.epochs)
            (directory / LEADER_EPOCHS).write_text(f"0\n{len(log.epochs)}\n{text}")
        (directory / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {log.topic_id}")
    for name, noted in [
        (LOG_STARTS, [log.start for log in there]),
        (HIGH_WATERMARKS, [log.high_watermark for log in there]),
    ]:
        lines = "".join(
            f"{log.name.topic} {log.name.partition} {offset}\n"
            for log, offset in zip(there, noted, strict=True)
        )
        (path / name).write_text(f"0\n{len(there)}\n{lines}")
    for file in path.rglob("*"):
        os.utime(file, (written_at, written_at))
