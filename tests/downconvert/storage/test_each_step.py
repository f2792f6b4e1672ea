"""Each change of a log dies at each of its steps: flushed records are there, cut ones are not.

Indexes, epochs and producers are then as if they were made from the records anew.

Unsynced contents and names are lost or kept, each on their own.

Not here: random changes, one after the other (test_crash.py)."""

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from downconvert.storage import Log, LogConfig, LogDir, TopicPartition
from downconvert.storage.disk.faulty_disk import FaultyDisk, Killed
from records import ControlRecordType, build_marker
from records.formats import V1, V2

from .logs import UNSYNCED, batch, offsets

PARTITION = TopicPartition("steps", 3)
CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=100, segment_index_bytes=480)
PRODUCER = {"producer_epoch": 3, "transactional": True}
OPEN, ABORTED, COMMITTED = 5, 7, 9  # ids of producers, by their first transaction


class Crash(Random):
    """Whether the disk has what was not synced: contents, and names."""

    contents = names = False

    def random(self) -> float:
        return 0.25 if self.contents else 0.1

    def randint(self, a: int, b: int) -> int:
        return b if self.names else a


class Promises:
    """The offsets of records that must be in the log after a crash, and of those that may be."""

    def __init__(self, there: Iterable[int]) -> None:
        self.must = set(there)
        self.may = set(self.must)
        self._appended = set[int]()

    def append(self, log: Log, offset: int, **options: Any) -> None:
        self._appended |= {offset, offset + 1}
        self.may |= self._appended
        log.writer.append(pair(offset, **options))

    def flush(self, log: Log) -> None:
        log.writer.flush()
        self.are_flushed()

    def are_flushed(self) -> None:
        self.must |= self._appended
        self._appended.clear()

    def truncate(self, log: Log, offset: int) -> None:
        self.must -= set(range(offset, 1000))
        log.writer.truncate_to(offset)
        self.may -= set(range(offset, 1000))


def pair(offset: int, producer_id: int = -1, **options: Any) -> bytes:
    if producer_id >= 0:
        options |= PRODUCER | {"producer_id": producer_id, "base_sequence": offset}
    if options.get("magic", V2) == V2:
        options["leader_epoch"] = offset // 8
    return batch(offset, offset + 1, size=150, **options)


def marker(kind: ControlRecordType, offset: int, producer_id: int) -> bytes:
    return build_marker(
        kind, offset=offset, timestamp=10 * offset, producer_id=producer_id, producer_epoch=3
    )


def fill(path: Path) -> set[int]:
    """Makes a log of several segments that was flushed, and not closed."""
    parts = [
        *((0, pair(0, ABORTED)), (2, pair(2, COMMITTED)), (4, pair(4))),
        *((6, marker(ControlRecordType.ABORT, 6, ABORTED)), (7, pair(7, ABORTED))),
        (9, marker(ControlRecordType.COMMIT, 9, COMMITTED)),
        (10, marker(ControlRecordType.ABORT, 10, ABORTED)),
        *((11, pair(11, OPEN)), (13, pair(13)), (15, pair(15, OPEN))),
    ]
    log_dir = LogDir.open(path, writable=True, config=CONFIG, files=UNSYNCED)
    writer = log_dir.logs.create(PARTITION).writer
    for _, data in parts:
        writer.append(data)
    writer.flush()
    log_dir.abandon()
    return {n for offset, _ in parts if offset not in (6, 9, 10) for n in (offset, offset + 1)}


# --- changes


def append(log: Log, promises: Promises) -> None:
    promises.append(log, log.end_offset, producer_id=ABORTED)
    promises.flush(log)


def append_old(log: Log, promises: Promises) -> None:
    """Messages of v1 have no epoch that would be noted in the directory as well."""
    promises.append(log, log.end_offset, magic=V1)
    promises.flush(log)


def roll(log: Log, promises: Promises) -> None:
    end = log.end_offset
    promises.append(log, end)
    promises.append(log, end + 2)
    log.writer.roll()
    promises.are_flushed()
    promises.append(log, end + 4)
    promises.flush(log)


def truncate(log: Log, promises: Promises) -> None:
    promises.truncate(log, 15)
    promises.append(log, 15, codec=1)
    promises.flush(log)


def truncate_segments(log: Log, promises: Promises) -> None:
    promises.must.discard(7)  # its batch is cut
    promises.truncate(log, 8)
    promises.may.discard(7)
    promises.append(log, 40, producer_id=COMMITTED)
    promises.flush(log)
    log.writer.roll()


def start_again(log: Log, promises: Promises) -> None:
    promises.must.clear()
    log.writer.truncate_fully_and_start_at(60)
    promises.may.clear()
    promises.append(log, 60)
    promises.flush(log)


def delete_records(log: Log, promises: Promises) -> None:
    promises.must -= set(range(8))
    log.writer.delete_records(8)
    promises.append(log, 17)
    promises.flush(log)


def remove_oldest(log: Log, promises: Promises) -> None:
    promises.must -= set(range(log.segments[2].base_offset))
    log.writer.remove_oldest(2)
    promises.flush(log)


def remove_all(log: Log, promises: Promises) -> None:
    promises.must.clear()
    log.writer.remove_oldest(len(log.segments))


CHANGES = [
    *(append, roll, truncate, truncate_segments, start_again),
    *(delete_records, remove_oldest, remove_all),
]


# --- the log afterwards


def derived(log: Log, first: int) -> dict[str, Any]:
    """The state besides records, as far as the records from an offset on show it."""
    producers = {one.producer_id: one for one in log.producers() if one.last_offset >= first}
    starts = {n: one.transaction_start for n, one in producers.items() if n != OPEN or first <= 11}
    return {
        "producers": {
            one.producer_id: (one.epoch, one.last_offset, one.last_sequence, one.timestamp)
            for one in producers.values()
        },
        "open": starts,
        "aborted": [one for one in log.aborted(first, log.end_offset) if one.first_offset >= first],
        "epochs": [one for one in log.writer.epochs if first < one.start_offset < log.end_offset],
    }


def check(path: Path, promises: Promises) -> None:
    """Opens what a crash has left, and compares it with a log made of its records alone."""
    with LogDir.open(path, writable=True, config=CONFIG, files=UNSYNCED) as log_dir:
        if PARTITION not in log_dir.logs:
            assert not promises.must
            return
        log = log_dir.logs[PARTITION]
        found = offsets(log.records())
        assert promises.must <= set(found) <= promises.may
        headers = [header for _, header in log.batches()]
        gaps = [(a.last_offset, b.base_offset) for a, b in pairwise(headers)]
        assert all(last + 1 == base for last, base in gaps if base not in (40, 60))
        for offset in found:
            assert next(log.read(offset, 1).batches()).last_offset in (offset, offset + 1)
            assert log.offset_for(10 * offset) == offset
        anew = path.with_name(f"{path.name} anew")
        (anew / str(PARTITION)).mkdir(parents=True)
        for segment in log.segments:
            shutil.copy(segment.path(), anew / str(PARTITION))
        first = log.segments[0].base_offset
        with LogDir.open(anew, writable=True, config=CONFIG, files=UNSYNCED) as other:
            if found:
                assert derived(log, first) == derived(other.logs[PARTITION], first)
        log.writer.append(pair(end := log.end_offset))
    with LogDir.open(path, writable=True, config=CONFIG, files=UNSYNCED) as log_dir:
        log = log_dir.logs[PARTITION]
        assert not log.writer.recovery.checked  # it was closed
        assert offsets(log.records()) == [*found, end, end + 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "begins"),
    [
        *((change, "recovered") for change in CHANGES),
        (append, "recovers"),
        *((change, "new") for change in (append, append_old, roll, start_again)),
    ],
)
def test_flushed_records_survive_a_change_that_dies_at_any_step(
    change: Callable[[Log, Promises], None], begins: str, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    there = set() if begins == "new" else fill(whole)
    for dies_in in count(1):
        path = tmp_path / f"log {dies_in}"
        shutil.copytree(whole, path)
        crash, promises = Crash(), Promises(there)
        disk = FaultyDisk(path, random=crash)
        log_dir = LogDir.open(path, writable=True, config=CONFIG, files=disk)
        if begins == "recovered":
            log_dir.logs.create(PARTITION)
        disk.dies_in(dies_in)
        is_done = False
        with suppress(Killed):
            change(log_dir.logs.create(PARTITION), promises)
            log_dir.close()
            is_done = True
        disk.dies_never()
        log_dir.abandon()
        outcomes = [(False, False)]
        if begins == "recovers" or dies_in % 3 == 0:
            outcomes.append((dies_in % 2 > 0, dies_in % 4 < 3))
        for crash.contents, crash.names in outcomes:
            left = tmp_path / f"left {dies_in} {crash.contents} {crash.names}"
            left.mkdir()
            disk.survivors(left)
            check(left, promises)
        if is_done:
            break
