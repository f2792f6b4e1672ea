"""Random tests: a log changes between runs. An export must hold its records, and a stream must read
each record once.

A leader's log grows, is truncated by a new leader, loses its oldest segments, and is copied to
brokers that lag behind. After each step an export runs, and may be killed, and a stream continues.
The model knows the records that the export must hold. No JVM: tasks run in this process."""

import os
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from downconvert.spark.errors import DataLossError
from downconvert.spark.jobs.export import export_noted
from downconvert.spark.jobs.export.export_directory import DirectoryNotes
from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.logs.places import Json
from downconvert.spark.read.reader import Task
from downconvert.storage.names import HIGH_WATERMARKS, LEADER_EPOCHS, LOG_STARTS, Kind, file_name
from tests.downconvert.spark.exporting import exported
from tests.downconvert.spark.lakes import Lake
from tests.downconvert.spark.reading import rows
from tests.downconvert.spark.stream.test_follow import Limit, stream
from tests.downconvert.spark.tiered import Packing, aiven, local_tiered
from tests.downconvert.storage.logs import indexed_segment, segment

from .tree_log import Batch, appended, transactions, write_transaction_index
from .tree_model import NAME, TOPIC_ID
from .tree_offsets import misdated
from .tree_places import PLACED, REMOTE, add_move, pack

STEPS: Final = 5
Truth = dict[int, bytes | None]


class Died(BaseException):
    """The process is killed here."""


@dataclass
class History:
    """A leader's log as it is now. `bases`: base offsets of its segments. `archive`: the records of
    the latest export."""

    chance: random.Random
    batches: list[Batch] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)
    high_watermark: int = 0
    written_at: int = 1_700_000_000
    archive: Truth = field(default_factory=dict)
    deleted: Truth = field(default_factory=dict)  # records that retention has removed
    is_committed: bool = False  # only committed records are read
    topic: int = 0  # the number of times that the topic was created anew
    packings: tuple[str, ...] = ("", "", "")  # of each broker's directory (tree_places.py)
    disks: tuple[str, ...] = ("", "", "")  # suffix of each broker's directory on another disk
    tier: str = ""  # the kind of tiered storage that has the leader's rolled segments

    def place(self, seed: int) -> None:
        """Chooses the places of the copies."""
        chance = random.Random(f"place {seed}")
        self.packings = tuple(chance.choices(["", "tar", "gz", "tar of gz"], [3, 1, 1, 1], k=3))
        self.disks = tuple(chance.choices(["", "future", "delete"], [3, 1, 1], k=3))
        self.tier = chance.choice(["", "kafka", "aiven"])

    @property
    def start(self) -> int:
        return self.bases[0] if self.bases else 0

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else self.start

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return transactions(self.batches).stable(self.end)

    def readable_end(self) -> int:
        """The offset up to which readers read, if they stop at the high watermark."""
        if not self.is_committed:
            return self.high_watermark
        below = [one for one in self.batches if one.base < self.high_watermark]
        return transactions(below).stable(self.high_watermark)

    def truth(self) -> Truth:
        """The records that readers must read now."""
        there = {at: value for one in self.batches for at, _, value in one.records}
        if not self.is_committed:
            return there
        aborted, stable = transactions(self.batches).records, self.stable
        return {at: value for at, value in there.items() if at not in aborted and at < stable}

    def step(self) -> None:
        """Lets the log grow, perhaps after a new leader has truncated it."""
        chance = self.chance
        if self.batches and chance.random() < 0.08:
            self._create_anew()
        if self.batches and chance.random() < 0.5:
            least = max(1, len(self.batches) - 6)
            if self.is_committed:  # truncation must not change the outcome of a transaction
                markers = [at for at, one in enumerate(self.batches) if not one.records]
                least = max(least, *(at + 1 for at in markers), 0)
            self._truncate(chance.randrange(least, len(self.batches) + 1))
        if not self.epochs:
            self.epochs.append((0, 0))
        if not self.bases:
            self.bases.append(0)
        share = 0.4 if self.is_committed else 0.0
        count, epoch = chance.randrange(0, 12), self.epochs[-1][0]
        for one in appended(
            chance, self.batches, self.end, epoch, count, transactional=share, topic=self.topic
        ):
            if self.batches and chance.random() < 0.2:
                self.bases.append(one.base)
            self.batches.append(one)
        self.high_watermark = chance.randrange(self.high_watermark, self.end + 1)
        if len(self.bases) > 1 and chance.random() < 0.25:  # retention
            del self.bases[: chance.randrange(1, len(self.bases))]
            self.deleted |= {at: v for at, v in self.truth().items() if at < self.start}
            self.batches = [one for one in self.batches if one.base >= self.start]

    def _create_anew(self) -> None:
        """Deletes the topic, and creates another one of its name."""
        self.topic += 1
        self.batches, self.epochs, self.bases = [], [], []
        self.high_watermark = 0
        self.archive, self.deleted = {}, {}

    def _truncate(self, kept: int) -> None:
        del self.batches[kept:]
        epoch = self.epochs[-1][0] + self.chance.randrange(1, 3)
        while self.epochs and self.epochs[-1][1] >= self.end:
            self.epochs.pop()
        self.epochs.append((epoch, self.end))
        self.bases = [base for base in self.bases if base < self.end] or [self.start]
        self.high_watermark = min(self.high_watermark, self.end)

    def write(self, path: Path, *, has_checkpoints: bool, has_epochs: bool) -> None:
        """Writes the directories of up to three brokers. All but the first one may lag."""
        shutil.rmtree(path, ignore_errors=True)
        brokers: list[Path] = []
        for number in range(self.chance.randrange(1, 4)):
            most = len(self.batches)
            count = most if not number else self.chance.randrange(most // 2, most + 1)
            broker = path / f"b{number}" / ("d1" if self.disks[number] else "")
            brokers.append(broker)
            is_indexed = self._write_copy(broker, self.batches[:count], has_epochs=has_epochs)
            if self.tier and not number and is_indexed:  # brokers copy only segments with indexes
                self._move_to_tier(path, broker / NAME)
            if has_checkpoints:
                noted = self.high_watermark if not number else self.high_watermark // 2
                (broker / HIGH_WATERMARKS).write_text(f"0\n1\na 0 {noted}\n")
            text = f"0\n1\na 0 {self.start}\n"
            (broker / LOG_STARTS).write_text(text)
        self.written_at += 1  # a store's times are whole seconds, and readers cache by time
        self._set_times(path)
        for number, broker in enumerate(brokers):
            if self.disks[number]:
                add_move(random.Random(self.written_at), broker / NAME, self.disks[number])
            pack(path / f"b{number}", broker / NAME, self.packings[number])
        self._set_times(path)

    def _set_times(self, path: Path) -> None:
        for file in path.rglob("*"):
            os.utime(file, (self.written_at, self.written_at))

    def _move_to_tier(self, path: Path, directory: Path) -> None:
        """Copies the leader's rolled segments to tiered storage, and deletes some of them."""
        chance = random.Random(f"tier {self.written_at} {self.end}")
        kept = chance.randrange(len(self.bases))
        for number, base in enumerate(self.bases[:-1]):
            last = self.bases[number + 1] - 1
            name, packing = f"{base:022d}", Packing(200, is_compressed=base % 2 == 1)
            if self.tier == "kafka":
                local_tiered(path / REMOTE, directory, base, name, topic_id=self._id())
            else:
                aiven(path / REMOTE, directory, base, last, packing, name, topic_id=self._id())
            if number < kept:
                for file in directory.glob(f"{base:020d}.*"):
                    file.unlink()

    def _write_copy(self, broker: Path, batches: list[Batch], *, has_epochs: bool) -> bool:
        """Writes a broker's copy. Returns whether it has indexes."""
        directory = broker / NAME
        directory.mkdir(parents=True)
        end = batches[-1].last + 1 if batches else self.start
        bases = [base for base in self.bases if base < end] or [self.start]
        aborted = transactions(batches).aborted
        make = indexed_segment if self.chance.random() < 0.6 else segment
        for base, after in zip(bases, [*bases[1:], 2**63], strict=True):
            own = [one for one in batches if base <= one.base < after]
            make(directory, base, *(one.data for one in own))
            if make is indexed_segment:
                write_transaction_index(directory, base, own, aborted)
        if batches and self.chance.random() < 0.2:  # an unfinished copy or write
            log = directory / file_name(bases[-1], Kind.LOG)
            torn = Batch(end, end, self.epochs[-1][0], ((end, b"k0", b"torn"),)).data
            log.write_bytes(log.read_bytes() + torn[: self.chance.randrange(len(torn))])
        if has_epochs:
            is_leader = len(batches) == len(self.batches)  # a leader notes its epoch first
            noted = [one for one in self.epochs if one[1] < end or is_leader]
            text = "".join(f"{epoch} {start}\n" for epoch, start in noted)
            (directory / LEADER_EPOCHS).write_text(f"0\n{len(noted)}\n{text}")
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {self._id()}")
        return make is indexed_segment

    def _id(self) -> str:
        return TOPIC_ID[:-1] + "QgwA"[self.topic % 4]


def check_history(seed: int, path: Path, uri: str | None = None) -> None:
    """Checks one history, below an empty directory. `uri`: that directory in a store, if it is read
    from there. AssertionError: a result is wrong."""
    place = str(path / "logs") if uri is None else f"{uri}/logs"
    chance = random.Random(seed)
    history = History(chance, is_committed=chance.random() < 0.4)
    if seed >= PLACED:
        history.place(seed)
    has_checkpoints, has_epochs = chance.random() < 0.5, chance.random() < 0.8
    kind = chance.choice(["parquet", "parquet", "delta", "iceberg"])
    lake = _lake(path, kind, history)
    reader = _Reader(place)
    for _ in range(STEPS):
        history.step()
        history.write(path / "logs", has_checkpoints=has_checkpoints, has_epochs=has_epochs)
        truth = history.truth()
        isolation = _isolation(history)
        found = {row["offset"]: row["value"] for row in rows(place, isolation=isolation)}
        assert found == truth, f"seed {seed}: a query reads {_differences(found, truth)}"
        reader.read_on(history, seed)
        if chance.random() < 0.3:
            continue
        if lake.topic != history.topic:
            _refuses(history, place, lake, seed)
            lake = _lake(path, kind, history)
        end = history.readable_end() if has_checkpoints else history.end
        with misdated(path / "logs", seed if has_epochs else 0):
            _export(history, place, lake, end, seed, has_epochs=has_epochs)


def _isolation(history: History) -> str:
    return "read_committed" if history.is_committed else "read_uncommitted"


class _TopicLake(Lake):
    """The export target for one topic."""

    topic: int


def _lake(path: Path, kind: str, history: History) -> _TopicLake:
    (path / f"lake-{history.topic}").mkdir()
    lake = _TopicLake(path / f"lake-{history.topic}", kind)
    lake.topic = history.topic
    return lake


def _refuses(history: History, place: str, lake: Lake, seed: int) -> None:
    """Checks that an export of the new topic refuses the target of the former one."""
    before = lake.records()
    with pytest.MonkeyPatch.context() as patch:
        try:
            exported(patch, place, lake.target, committed=history.is_committed)
        except JobError as error:
            if "recreated" not in str(error):
                raise
        else:
            assert not before, f"seed {seed}: an export mixes two topics"
    if before:
        assert lake.records() == before, f"seed {seed}: a refused export changes its target"


def _export(
    history: History, place: str, lake: Lake, end: int, seed: int, *, has_epochs: bool
) -> None:
    now = history.deleted | history.truth()
    new = {at: value for at, value in history.truth().items() if at < end}
    old = {at: value for at, value in history.archive.items() if now.get(at) == value}
    is_unclear = not has_epochs and history.epochs[-1][1] >= history.end
    if is_unclear:  # without epochs, nothing shows that a later leader truncated the log
        old |= {at: value for at, value in history.archive.items() if at >= history.end}
    if not has_epochs:  # nothing shows which leaders wrote the deleted records
        old |= {at: value for at, value in history.archive.items() if at < history.start}
    committed = history.is_committed
    with pytest.MonkeyPatch.context() as patch:
        for repair in (False, True):
            dies = history.chance.random() < 0.3
            try:
                with patch.context() as dying:
                    if dies:
                        _let_die(dying, random.Random(history.chance.random()), lake.target)
                    exported(patch, place, lake.target, repair=repair, committed=committed)
            except (Died, JobError) as error:
                if is_unclear and "not up to date" in str(error):
                    return
                if isinstance(error, JobError) and (repair or "--repair" not in str(error)):
                    raise
            else:
                break
        else:
            exported(patch, place, lake.target, repair=True, committed=committed)
    there = lake.records()
    assert len(there) == len(dict(there)), f"seed {seed}: an export has records twice"
    history.archive = dict(there)
    expected = old | new
    assert dict(there) == expected, (
        f"seed {seed}: an export has {_differences(dict(there), expected)}"
    )


def _let_die(patch: pytest.MonkeyPatch, chance: random.Random, target: Any) -> None:
    """Kills the next export before or after it takes one of its steps."""
    notes = DirectoryNotes if isinstance(target, Path) else type(target)
    steps = [(notes, name) for name in ("begin", "remove_lost", "remove", "write")]
    owner, name = chance.choice([(export_noted, "write_records"), *steps])
    is_late = chance.random() < 0.5
    step = getattr(owner, name)

    def dying(*given: Any, **options: Any) -> None:
        if is_late:
            step(*given, **options)
        raise Died

    patch.setattr(owner, name, dying)


class _Reader:
    """A stream that continues in each step, and the records that it has read."""

    def __init__(self, place: str) -> None:
        self._path = place
        self._place: Json | None = None
        self._batches: list[Batch] = []
        self._read: Truth = {}
        self._topic = 0

    def read_on(self, history: History, seed: int) -> None:
        truth = history.truth()
        place = self._place
        offset = 0 if place is None else _offset(place)
        before = next((one for one in self._batches if one.base < offset <= one.last + 1), None)
        is_there = before is None or before in history.batches or before.last < history.start
        is_lost = not is_there or offset < history.start or offset > history.end
        is_lost = is_lost or self._topic != history.topic
        self._topic = history.topic
        try:
            self._read_all(history, strict=True)
        except DataLossError:
            assert is_lost, f"seed {seed}: a stream fails at {place}, and nothing is lost"
            self._read = {at: v for at, v in self._read.items() if truth.get(at) == v}
            self._read_all(history, strict=False)
        self._batches = list(history.batches)
        left = {at: v for at, v in self._read.items() if at >= history.start}
        assert left == truth, f"seed {seed}: a stream has {_differences(left, truth)}"

    def _read_all(self, history: History, *, strict: bool) -> None:
        source = stream(
            self._path,
            failOnDataLoss=strict,
            stopAtHighWatermark=False,
            isolation=_isolation(history),
        )
        if self._place is None:
            self._place = source.initialOffset()
        source.prepareForTriggerAvailableNow()
        while True:
            limits: Any = [Limit(), Limit(max_rows=7), Limit(max_bytes=300)]
            end = source.latestOffset(self._place, history.chance.choice(limits))
            if end == self._place:
                break
            for row in _rows(source, self._place, end):
                self._read[row[0]] = row[1]
            self._read = {at: v for at, v in self._read.items() if at < _offset(end)}
            self._place = end


def _offset(place: Json) -> int:
    found = place["a"]["0"]
    return int(found["offset"] if isinstance(found, dict) else found)


def _rows(source: Any, start: Json, end: Json) -> list[tuple[int, bytes]]:
    return [
        (row["offset"], row["value"])
        for task in source.partitions(start, end)
        if isinstance(task, Task)
        for found in source.read(task)
        for row in found.to_pylist()
    ]


def _differences(found: Truth, expected: Truth) -> str:
    more = sorted(at for at in found if found[at] != expected.get(at))
    less = sorted(at for at in expected if at not in found)
    return f"{more} more or otherwise, and {less} less"
