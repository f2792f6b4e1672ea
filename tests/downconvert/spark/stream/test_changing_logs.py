"""A stream of several logs that grow, are truncated, deleted and recreated.

Each micro-batch begins, ends and reads as a model says (changing_logs.py), also if its process dies
before it has read."""

import json
import random
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from bench.tree.tree_log import Batch
from downconvert.spark.errors import DataLossError
from downconvert.spark.logs.places import Places, Wait, from_json, to_json
from downconvert.spark.read.reader import Task
from downconvert.spark.stream import follow
from downconvert.spark.stream.stream import SegmentStreamReader
from downconvert.storage.names import TopicPartition
from records.batch import NONE
from tests.downconvert.spark.reading import packed

from .changing_logs import CHANGES, ChangingLog, write
from .test_follow import Limit, stream

NAMES: Final = (TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0))
STEPS: Final = 7
START: Final = 1_700_000_000_000  # of the clock, in milliseconds
TIMEOUT: Final = 60_000
LIMITS: Final = {"none": (0,), "max_rows": (1, 3, 7, 30), "max_bytes": (1, 150, 400, 3000)}
Offsets = dict[TopicPartition, int]
Names = set[TopicPartition]


class Following:
    """A stream, its places, and the logs as they were when it was there (`read`)."""

    def __init__(self, seed: int, path: Path) -> None:
        chance = self.chance = random.Random(seed)
        self.seed = seed
        self.logs = {name: ChangingLog(name, chance) for name in NAMES}
        # each of them with each of the others
        self.kind = sorted(LIMITS)[seed % 3]
        self.committed, self.at_watermark = seed // 3 % 2 > 0, seed // 6 % 2 > 0
        self.is_packed = seed // 12 % 2 > 0
        self.has_gaps = not self.committed and self.kind != "max_bytes"
        self.now, self.written_at = START, START // 1000
        self.path = path / "logs"
        for log in self.logs.values():
            log.grow()
        self.write()
        at = chance.choice(["earliest", "latest"])
        self.places: Places = from_json(self.stream(startingOffsets=at).initialOffset())
        starts = {name: log.start for name, log in self.logs.items()}
        found = {name: place.offset for name, place in self.places.items()}
        self.expect(found, starts if at == "earliest" else self.ends(), "begins at")
        self.read = self.histories()
        self.source, self.turn = self.stream(), 0

    def stream(self, **options: Any) -> SegmentStreamReader:
        given = {
            "isolation": "read_committed" if self.committed else "read_uncommitted",
            "stopAtHighWatermark": self.at_watermark,
            "gapTimeoutMs": TIMEOUT,
            "failOnDataLoss": False,
            "mode": "DROPMALFORMED",
        }
        path = self.path.with_name("logs.tar") if self.is_packed else self.path
        return stream(path, **(given | options))

    def time(self) -> int:
        return self.now

    def write(self) -> None:
        self.written_at += TIMEOUT  # so no segment is old, whatever the clock says
        write(self.path, list(self.logs.values()), self.written_at, self.chance)
        if self.is_packed:
            packed(self.path)

    def histories(self) -> dict[TopicPartition, list[Batch]]:
        return {name: list(log.history) for name, log in self.logs.items() if log.is_there}

    def ends(self) -> Offsets:
        return {
            name: log.readable_until(at_watermark=self.at_watermark, committed=self.committed)
            for name, log in self.logs.items()
            if log.is_there
        }

    def expect(self, found: Any, wanted: Any, what: str) -> None:
        assert found == wanted, f"seed {self.seed}: a stream {what} {found}, and not {wanted}"

    def change(self) -> None:
        for number, log in enumerate(self.logs.values()):
            change = self.chance.choice(CHANGES if log.is_there else ("recreate", "vanish"))
            if number or change != "vanish":  # one log is always there
                getattr(log, change)()
            if self.has_gaps and self.chance.random() < 0.5:
                log.hold_back()
        self.now += self.chance.choice([0, 1, TIMEOUT - 1, TIMEOUT, -TIMEOUT // 2])
        self.write()

    def micro_batch(self) -> None:
        begun, limit = self.places, self._limit()
        starts, lost = self._starts()
        if lost:
            with pytest.raises(DataLossError):
                self.stream(failOnDataLoss=True).latestOffset(to_json(begun), limit)
        found, named = _losses(lambda: self.source.latestOffset(to_json(begun), limit))
        self.expect(named, lost, "warns of losses in")
        places, ends = from_json(json.loads(json.dumps(found))), self.ends()
        wanted = self._placed(starts, ends, limit, places)
        self.expect(places, wanted, f"from {begun} with {limit.__dict__} reaches")
        reported = from_json(self.source.reportLatestOffset())
        self.expect({name: at.offset for name, at in reported.items()}, ends, "reports")
        self.turn += 1
        planned = self.histories()
        kept = {name for name in planned if _is_absent(self.logs[name], places[name].offset)}
        if self.chance.random() < 0.3:  # the process dies, and the logs change before the next one
            self.change()
            self.source, self.turn = self.stream(), 0
        self._reads(places, planned)
        self.places = places
        # A place keeps the epoch of a record that is not there for the moment.
        self.read |= {name: log for name, log in planned.items() if name not in kept}

    def _limit(self) -> Any:
        size = self.chance.choice(LIMITS[self.kind])
        return Limit(**({self.kind: size} if size else {}))

    def _starts(self) -> tuple[Offsets, Names]:
        """Where reading begins, and the partitions with losses."""
        starts: Offsets = {}
        lost = {name for name in self.places if not self.logs[name].is_there}
        for name, log in self.logs.items():
            if log.is_there:
                place, read = self.places.get(name), self.read.get(name, [])
                starts[name], is_lost = log.start_for(place, read)
                lost |= {name} if is_lost else set()
        return starts, lost

    def _placed(self, starts: Offsets, ends: Offsets, limit: Any, found: Places) -> Places:
        """Where the micro-batch ends. A limit in bytes leaves several possibilities."""
        ready = [name for name in sorted(ends) if starts[name] < ends[name]]
        reached = starts | {name: ends[name] for name in ready}
        if hasattr(limit, "max_rows"):
            reached |= self._shares(limit.max_rows, {n: ends[n] - starts[n] for n in ready}, starts)
        elif hasattr(limit, "max_bytes"):
            reached |= {name: found[name].offset for name in ready}
            self._check_bytes(limit.max_bytes, ready, starts, reached, ends)
        wanted = {name: at for name, at in self.places.items() if name not in starts}
        for name, end in reached.items():
            before = self.places.get(name)
            wait = None if before is None else before.wait
            if end > starts[name]:
                end, wait = self._until_gap(name, starts[name], end, wait, ends[name])
            elif before is not None and end != before.offset:
                wait = None
            wanted[name] = self.logs[name].place_at(end, before)._replace(wait=wait)
        return wanted

    def _shares(self, total: int, sizes: Offsets, starts: Offsets) -> Offsets:
        """The limit in proportion to what there is, rounded down, and the rest in turns."""
        whole = sum(sizes.values())
        shares = {name: min(size, total * size // whole) for name, size in sizes.items()}
        left, names = min(total, whole) - sum(shares.values()), sorted(sizes)
        at = self.turn
        while left:
            name = names[at % len(names)]
            if shares[name] < sizes[name]:
                shares[name], left = shares[name] + 1, left - 1
            at += 1
        return {name: starts[name] + share for name, share in shares.items()}

    def _check_bytes(
        self,
        total: int,
        ready: Sequence[TopicPartition],
        starts: Offsets,
        reached: Offsets,
        ends: Offsets,
    ) -> None:
        """Checks that something is read, no batch more than fits except the first one, and no batch
        less. In a tar an index says only about where batches end."""
        moved = [name for name in ready if reached[name] > starts[name]]
        assert bool(moved) == bool(ready), f"seed {self.seed}: nothing is read of {ready}"
        assert all(reached[name] <= ends[name] for name in ready)
        if self.is_packed or not ready:
            return
        sizes = {
            name: [
                len(one.data)
                for one in self.logs[name].copied()
                if one.last >= starts[name] and one.base < reached[name]
            ]
            for name in moved
        }
        taken = sum(map(sum, sizes.values()))
        is_first_too_large = any(taken - own[0] < total for own in sizes.values())
        assert taken <= total or is_first_too_large, f"seed {self.seed}: {taken} bytes of {total}"
        turn = self.turn % len(ready)
        assert ready[turn] in moved, f"seed {self.seed}: it was the turn of {ready[turn]}"
        last = self.logs[ready[turn - 1]]
        following = [len(one.data) for one in last.copied() if one.base >= reached[last.name]]
        if following and all(ends[name] == self.logs[name].end for name in ready):
            assert taken + following[0] > total, f"seed {self.seed}: only {taken} bytes of {total}"

    def _until_gap(
        self, name: TopicPartition, first: int, end: int, wait: Wait | None, log_end: int
    ) -> tuple[int, Wait | None]:
        for gap in self.logs[name].gaps(first, end):
            if wait is None or gap.end > wait.up_to:
                wait = Wait(self.now, max(log_end, gap.end))
            wait = wait._replace(since=min(wait.since, self.now))
            if self.now < wait.since + TIMEOUT:
                end = gap.start
                break
        return end, wait if wait is not None and end < wait.up_to else None

    def _reads(self, places: Places, planned: dict[TopicPartition, list[Batch]]) -> None:
        """Checks the losses and the records of a micro-batch, in the logs as they are now."""
        starts, lost = self._starts()
        lost = {name for name in lost if self.logs[name].is_there}
        wanted: list[tuple[TopicPartition, int, bytes | None]] = []
        for name, place in sorted(places.items()):
            log, before = self.logs[name], self.places.get(name)
            if not log.is_there:
                lost |= {name} if (0 if before is None else before.offset) < place.offset else set()
            elif starts[name] < place.offset:
                is_other = log.topic_id != place.topic_id or log.end < place.offset
                changed = log.changed_before(place.offset, place, planned.get(name, []))
                lost |= {name} if is_other or changed < place.offset else set()
                if log.topic_id == place.topic_id:
                    records = log.records(starts[name], place.offset, committed=self.committed)
                    wanted += [(name, at, value) for at, value in records]
        given = to_json(self.places), to_json(places)
        tasks, named = _losses(lambda: self.source.partitions(*given))
        self.expect(named, lost, "warns, as it plans, of losses in")
        found: list[tuple[TopicPartition, int, bytes | None]] = [
            (TopicPartition(row["topic"], row["partition"]), row["offset"], row["value"])
            for task in tasks
            if isinstance(task, Task)
            for batch in self.source.read(task)
            for row in batch.to_pylist()
        ]
        self.expect(found, wanted, f"up to {places} reads")


def _is_absent(log: ChangingLog, offset: int) -> bool:
    """Whether the record before an offset is not there."""
    return log.epoch_before(offset) == NONE


def _losses(work: Callable[[], Any]) -> tuple[Any, Names]:
    """The result of a call, and the partitions that its warnings of lost records name."""
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        found = work()
    words = [str(one.message).split() for one in notices]
    lost = {said[0] for said in words if said[1:3] != ["has", "no"]}  # it waits for others
    return found, {name for name in NAMES if str(name) in lost}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "first",
    [
        *(0, 12, 36, 96),
        *(pytest.param(first, marks=pytest.mark.more) for first in range(108, 240, 12)),
    ],
)
def test_each_micro_batch_is_what_the_model_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    for seed in range(first, first + 12):
        following = Following(seed, tmp_path / str(seed))
        monkeypatch.setattr(follow, "now", following.time)
        for _ in range(STEPS):
            following.micro_batch()
            following.change()
