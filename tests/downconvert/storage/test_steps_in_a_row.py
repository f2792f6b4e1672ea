"""Random changes of a log, one after the other, until the machine dies at any of their steps.

Flushed records are there afterwards, and truncated ones are not. Producers, aborted transactions,
epochs, indexes and the highest timestamps of segments are as if they were made from the records
anew. Then the log is changed further, and the machine dies again.

Not here: each step of a change (test_each_step.py), the cleaner and full disks (test_crash.py)."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from downconvert.storage import Log, LogConfig, LogDir, OffsetIndex, TopicPartition
from downconvert.storage.checkpoints.checkpoint import EpochEntry
from downconvert.storage.disk.faulty_disk import FaultyDisk, Killed
from downconvert.storage.names import SEGMENT_KINDS, Kind, State, file_name, parse_file_name
from downconvert.storage.verify import verify_indexes
from records import ControlRecordType, build_marker
from records.batches.reader import read_batch
from records.formats import V1, Codec

from .logs import UNSYNCED, batch, offsets
from .test_each_step import Crash

PARTITION = TopicPartition("steps", 3)
CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=100, segment_index_bytes=480)
ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT
STEPS_MAX = 25
DEATHS = 3


class Batch(NamedTuple):
    """A batch by its offsets."""

    first: int
    last: int
    is_marker: bool


class Model:
    """The batches of a log, those that were flushed, and random changes of it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.batches: list[Batch] = []
        self.flushed: list[Batch] = []
        self.going: set[int] = set()  # records that a change in progress removes
        self.start = 0  # of the records that must be there
        self.start_min = 0  # of the log
        self.epoch = 0
        self.begun: set[EpochEntry] = set()  # epochs that may have no batch that names them

    def found(self, log: Log) -> None:
        """Continues with the log after a crash. All of it is flushed."""
        self.batches = list(_batches(log))
        self.flushed, self.going = list(self.batches), set()
        self.start = self.start_min = log.start_offset

    @property
    def must(self) -> set[int]:
        """The offsets of the records that no crash takes."""
        return {offset for offset in _records(self.flushed) if offset >= self.start}

    @property
    def may(self) -> set[int]:
        return _records(self.batches) | self.going

    def _keep(self, kept: list[Batch], change: Callable[[], Any]) -> None:
        self.going |= _records(self.batches)
        self.batches = kept
        self.flushed = [one for one in self.flushed if one in kept]
        change()
        self.going = set()

    # --- changes

    def append(self, log: Log) -> None:
        data, end = b"", log.end_offset
        if self.random.random() < 0.1:
            end += self.random.choice((1, 4))  # the log of a leader that was compacted has gaps
        for _ in range(self.random.choice((1, 1, 1, 2))):
            one, made = self._batch(end)
            self.batches.append(one)
            data += made
            end = one.last + 1
        log.writer.append(data)

    def _batch(self, first: int) -> tuple[Batch, bytes]:
        random, last = self.random, first + self.random.choice((0, 0, 1, 2))
        producer_id = random.choice((-1, 5, 5, 7))
        options: dict[str, Any] = {}
        if random.random() < 0.4:  # each new epoch syncs the directory, and hides a missing sync
            self.epoch += random.random() < 0.2
            options["leader_epoch"] = self.epoch
        if producer_id >= 0:
            options |= {"producer_id": producer_id, "producer_epoch": 3}
            if random.random() < 0.4:
                kind = random.choice((ABORT, ABORT, COMMIT))
                data = build_marker(kind, offset=first, timestamp=10 * first, **options)
                return Batch(first, first, is_marker=True), data
            options |= {"base_sequence": first, "transactional": random.random() < 0.8}
        elif random.random() < 0.2:
            options = {"magic": V1, "leader_epoch": -1}
        if random.random() < 0.1:
            options["timestamp"] = 10 * first + 200  # later records are older
        elif random.random() < 0.3:
            options["timestamp"] = 80 * (first // 8)  # as old as those before
        codec = random.choice((Codec.NONE, Codec.NONE, Codec.GZIP))
        if "magic" in options and codec is Codec.NONE:
            last = first  # each message of v1 is a batch
        return Batch(first, last, is_marker=False), batch(
            *range(first, last + 1), size=random.choice((10, 100)), codec=codec, **options
        )

    def flush(self, log: Log) -> None:
        log.writer.flush()
        self.flushed = list(self.batches)

    def release(self, log: Log) -> None:
        """Closes the files in the middle of the work, with or without a flush."""
        if self.random.random() < 0.5:
            log.writer.active.release()
            return
        log.writer.release()
        self.flushed = list(self.batches)

    def roll(self, log: Log) -> None:
        log.writer.roll()
        self.flushed = list(self.batches)

    def begin_epoch(self, log: Log) -> None:
        self.epoch += 1
        self.begun.add(EpochEntry(self.epoch, log.end_offset))
        log.writer.begin_epoch(self.epoch)

    def truncate(self, log: Log) -> None:
        offset = self.random.randint(max(log.start_offset, log.end_offset - 12), log.end_offset)
        kept = [one for one in self.batches if one.last < offset]
        if kept != self.batches and kept[-1:] and kept[-1].last + 1 < log.start_offset:
            kept = []  # the start is within a truncated batch
        self._keep(kept, lambda: log.writer.truncate_to(offset))
        self.epoch += 1

    def restart(self, log: Log) -> None:
        offset = self.random.randint(0, log.end_offset + 5)
        self.start = self.start_min = 0
        begun, self.begun = self.begun, {*self.begun, *log.writer.epochs}  # they go last
        self._keep([], lambda: log.writer.truncate_fully_and_start_at(offset))
        self.begun = begun
        self.epoch += 1

    def delete_records(self, log: Log) -> None:
        before = self.random.randint(0, log.end_offset)
        self.start = max(self.start, before)
        log.writer.delete_records(before)
        self.start_min = self.start

    def remove_oldest(self, log: Log) -> None:
        count = self.random.randint(0, len(log.segments))
        bases = [*(one.base_offset for one in log.segments), log.end_offset]
        self.start = max(self.start, bases[count])
        log.writer.remove_oldest(count)
        self.start_min = self.start

    def change(self, log: Log) -> None:
        one = self.random.choice(
            (
                *(self.append,) * 8,
                *(self.flush, self.roll, self.release, self.truncate) * 2,
                *(self.restart, self.delete_records) * 2,
                *(self.begin_epoch, self.remove_oldest),
            )
        )
        one(log)
        self.check(log)
        if self.random.random() < 0.2:
            self.compare(log)

    # --- checks

    def check(self, log: Log) -> None:
        """The open log has what was done to it."""
        start = log.start_offset
        assert start >= self.start_min
        assert offsets(log.records()) == sorted(n for n in _records(self.batches) if n >= start)
        ends = [one.last + 1 for one in self.batches]
        if not log.writer.active.position:  # an empty segment may begin after a gap
            ends.append(log.segments[-1].base_offset)
        assert log.end_offset == max(ends)

    def check_left(self, path: Path) -> None:
        """Opens what a crash has left, and compares it with the promises and with its records."""
        with written(path, UNSYNCED) as log_dir:
            log = log_dir.logs.create(PARTITION)
            found = offsets(log.records())
            start = log.start_offset
            assert self.must <= set(found)
            assert set(found) <= self.may
            assert start >= self.start_min
            self.compare(log)
            self.found(log)
            self.epoch = max([self.epoch, *(entry.epoch for entry in log.writer.epochs)])
            bases = [segment.base_offset for segment in log.segments]
        for base in bases:
            assert not list(verify_indexes(path / str(PARTITION), base))
            check_interval(path / str(PARTITION), base)
        names = [parse_file_name(one.name) for one in (path / str(PARTITION)).iterdir()]
        kinds = {(n.offset, n.kind) for n in names if n is not None and n.state is State.LIVE}
        assert {offset for offset, kind in kinds if kind in SEGMENT_KINDS} == set(bases)
        assert all(offset <= log.end_offset for offset, kind in kinds if kind is Kind.SNAPSHOT)

    def compare(self, log: Log) -> None:
        """Compares a log with one that is made of its records alone."""
        with TemporaryDirectory() as anew:
            (Path(anew) / str(PARTITION)).mkdir()
            for segment in log.segments:
                shutil.copy(segment.path(), Path(anew) / str(PARTITION))
            with written(Path(anew), UNSYNCED) as log_dir:
                compare(log, log_dir.logs[PARTITION], self.begun)


def check_interval(path: Path, base: int) -> None:
    """Entries of an offset index are as far from each other as the rule says, or farther."""
    index = OffsetIndex.open(path / file_name(base, Kind.OFFSET_INDEX), base)
    positions = [0, *(index.entry(slot)[1] for slot in range(len(index)))]
    index.close()
    for one, following in pairwise(positions):
        assert following - one > CONFIG.index_interval_bytes


def written(path: Path, files: Any) -> LogDir:
    return LogDir.open(path, writable=True, config=CONFIG, files=files)


def compare(log: Log, anew: Log, begun: set[EpochEntry]) -> None:
    """All that is kept beside records, as far as the records show it. Transactions that began
    before the first one are not known from records. `begun`: epochs that records need not show."""
    first = log.segments[0].base_offset
    assert log.end_offset == anew.end_offset or not list(_batches(log))
    aborted = log.aborted(first, log.end_offset)
    cut = {one for one in aborted if one.first_offset < first}
    ends = {one.last_offset for one in cut}
    assert [one for one in aborted if one not in cut] == [
        one for one in anew.aborted(first, anew.end_offset) if one.last_offset not in ends
    ]
    for producer_id, one in log.writer.producers.items():
        if one.last_offset < first:
            continue
        other = anew.writer.producers[producer_id]
        assert (one.epoch, one.last_offset, one.last_sequence, one.timestamp) == (
            *(other.epoch, other.last_offset, other.last_sequence),
            other.timestamp,
        )
        if one.transaction_start < 0 or one.transaction_start >= first:
            assert one.transaction_start == other.transaction_start
    shown = {one for one in anew.writer.epochs if one.start_offset > first}
    assert {one.epoch for one in shown} <= {one.epoch for one in log.writer.epochs}
    epochs = {one for one in log.writer.epochs if first < one.start_offset < log.end_offset}
    assert epochs <= shown | begun
    for segment in log.segments:
        headers = segment.slice(0, log.end_of(segment)).batches()
        highest = max((header.max_timestamp for header in headers), default=-1)
        assert log.writer.max_timestamp(segment) in (highest, None if highest < 0 else highest)
    records = list(log.records())
    for timestamp in {one.timestamp + more for one in records for more in (0, 1)}:
        expected = next((one.offset for one in records if one.timestamp >= timestamp), None)
        assert log.offset_for(timestamp) == expected


def _batches(log: Log) -> list[Batch]:
    found = []
    for records, header in log.batches(log.segments[0].base_offset):
        first = header.base_offset
        if header.magic == V1:
            first = next(read_batch(records, header)).offset
        found.append(Batch(first, header.last_offset, header.is_control))
    return found


def _records(batches: list[Batch]) -> set[int]:
    return {n for one in batches if not one.is_marker for n in range(one.first, one.last + 1)}


@pytest.mark.parametrize("seed", range(50))
def test_flushed_records_survive_a_crash_at_any_operation(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    model = Model(random)
    path = tmp_path / "0"
    path.mkdir()
    for death in range(1, DEATHS + 1):
        # Mostly all that was not synced is lost: then each sync that is missing shows.
        crash = random if random.random() < 0.3 else Crash()
        disk = FaultyDisk(path, random=crash)
        log_dir = written(path, disk)
        disk.dies_in(random.randint(1, 150))
        with suppress(Killed):
            log = log_dir.logs.create(PARTITION)
            for _ in range(random.randint(1, STEPS_MAX)):
                model.change(log)
            if random.random() < 0.3:
                log_dir.close()
                model.flushed = list(model.batches)
        disk.dies_never()
        log_dir.abandon()
        path = tmp_path / str(death)
        path.mkdir()
        disk.survivors(path)
        model.check_left(path)
