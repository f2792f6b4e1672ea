"""Transactions of a broker that is killed in the midst of anything: each is whole, or not there.

A small model says what may be read afterwards: of a transaction whose end was answered all or
nothing, by the response; of one whose broker died before it answered all or nothing, by what was
decided. All steps are of the real broker, over a disk that counts operations and dies at one of
them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from downconvert.broker import Broker, BrokerConfig
from downconvert.protocol.errors import ErrorCode
from downconvert.storage import LogConfig, LogDir
from downconvert.storage.disk.faulty_disk import FaultyDisk, Killed
from downconvert.storage.disk.files import Files
from tests.downconvert.broker.offset_logs import fetch
from tests.downconvert.broker.transacting import NOW, At, Producing, committed, is_stable
from tests.downconvert.storage.logs import UNSYNCED

PLACES: Final[tuple[At, ...]] = (("t", 0), ("t", 1))
NAMES: Final = ("x", "y")
SMALL: Final = LogConfig(segment_bytes=1000, segment_index_bytes=1000)
ACTIONS: Final = ("write", "write", "offset", "commit", "abort", "begin", "tick")
STEPS: Final = st.tuples(st.sampled_from(ACTIONS), st.sampled_from(NAMES), st.sampled_from(PLACES))
LIVES: Final = st.lists(
    st.tuples(st.lists(STEPS, max_size=15), st.integers(1, 120)), min_size=1, max_size=3
)


@dataclass
class Written:
    """The records of one transaction."""

    values: set[tuple[At, bytes]] = field(default_factory=set)
    maybe: set[tuple[At, bytes]] = field(default_factory=set)  # the broker died before it answered
    offset: int | None = None

    def is_in(self, found: set[tuple[At, bytes]]) -> bool:
        """Whether all of it, or nothing, can be read."""
        there = self.values & found
        assert there in (set(), self.values), "a part of a transaction"
        return bool(there) or bool(self.maybe & found)


class Model:
    """The records that may be read."""

    def __init__(self) -> None:
        self.open = {name: Written() for name in NAMES}
        self.committed: list[Written] = []
        self.aborted: list[Written] = []
        self.undecided: list[Written] = []  # either
        self.number = 0

    def ended(self, name: str, where: list[Written]) -> None:
        where.append(self.open[name])
        self.open[name] = Written()

    def check(self, broker: Broker) -> None:
        found = {(at, value) for at in PLACES for value in committed(broker, at) if value}
        assert all(is_stable(broker, at) for at in PLACES)
        assert all(one.values <= found for one in self.committed)
        assert not any(one.is_in(found) for one in (*self.aborted, *self.open.values()))
        told = fetch(broker, "g", PLACES[0], stable=True)
        may = {one.offset for one in (*self.committed, *self.undecided)} - {None}
        assert told[1] == ErrorCode.NONE
        assert told[0] in may | {-1}
        for one in self.undecided:
            if one.values and one.offset is not None and told[0] == one.offset:
                assert one.is_in(found), "its offset without its records"
            if one.is_in(found):
                self.committed.append(one)
            else:
                self.aborted.append(one)
        self.undecided = []


@contextmanager
def running(path: Path, files: Files) -> Iterator[Broker]:
    log_dir = LogDir.open(path, writable=True, config=SMALL, files=files)
    try:
        yield Broker(log_dir, BrokerConfig(is_writable=True))
    finally:
        log_dir.abandon()


def act(model: Model, producer: Producing, action: str, at: At) -> None:
    """One step of a producer, and what of it the model has to know."""
    name = producer.name
    match action:
        case "write":
            model.number += 1
            value = at, b"%d" % model.number
            if producer.add(at) == [ErrorCode.NONE]:
                model.open[name].maybe.add(value)
                if producer.send(value[1], at) is ErrorCode.NONE:
                    model.open[name].values.add(value)
                model.open[name].maybe.discard(value)
        case "offset":
            model.number += 1
            code = producer.add_offsets()
            if not code and not producer.commit_offset(model.number, at=PLACES[0]):
                model.open[name].offset = model.number
        case "commit" | "abort":
            written = model.open[name]
            model.ended(name, model.undecided)
            code = producer.end(commits=action == "commit")
            if code is ErrorCode.INVALID_TXN_STATE and not written.values:
                model.undecided.remove(written)  # there was none
                return
            assert code is ErrorCode.NONE
            model.undecided.remove(written)
            (model.committed if action == "commit" else model.aborted).append(written)
        case "begin":
            assert producer.begin() is ErrorCode.NONE
            model.ended(name, model.aborted)
        case "tick":
            producer.broker.tick(producer.now)


@settings(max_examples=max(1, settings.default.max_examples // 4), deadline=None)  # type: ignore[union-attr]
@given(lives=LIVES, seed=st.integers(0, 99))
@example(lives=[([("write", "x", PLACES[0]), ("offset", "x", PLACES[0])] * 2, 1000)], seed=0)
def test_transactions_are_whole_wherever_the_broker_dies(
    lives: list[tuple[list[tuple[str, str, At]], int]], seed: int
) -> None:
    with TemporaryDirectory() as directory:
        path, model = Path(directory), Model()
        with running(path, UNSYNCED) as broker:
            broker.topics.create("t", len(PLACES), {}, 0)
        for steps, dies_in in lives:
            disk = FaultyDisk(path, random=Random(seed))
            try:
                with running(path, disk) as broker:
                    producers = {name: Producing(broker, name) for name in NAMES}
                    for name in NAMES:
                        act(model, producers[name], "begin", PLACES[0])
                    disk.dies_in(dies_in)
                    for action, name, at in steps:
                        act(model, producers[name], action, at)
            except Killed:
                pass
            with running(path, UNSYNCED) as broker:
                broker.tick(NOW)  # what was decided is completed
                for name in NAMES:  # what was not is given up
                    act(model, Producing(broker, name), "begin", PLACES[0])
                model.check(broker)


def test_every_operation_of_a_commit_may_be_the_last(tmp_path: Path) -> None:
    """The same, operation by operation."""
    outcomes = set()
    for dies_in in range(1, 1000):
        path, model = tmp_path / str(dies_in), Model()
        path.mkdir()
        with running(path, UNSYNCED) as broker:
            broker.topics.create("t", len(PLACES), {}, 0)
            producer = Producing(broker, "x")
            producer.begin()
            for at in PLACES:
                act(model, producer, "write", at)
            act(model, producer, "offset", PLACES[0])
        disk, is_over = FaultyDisk(path), False
        try:
            with running(path, disk) as broker:
                producer.broker = broker
                disk.dies_in(dies_in)
                act(model, producer, "commit", PLACES[0])
                is_over = True
        except Killed:
            pass
        with running(path, UNSYNCED) as broker:
            broker.tick(NOW)
            assert Producing(broker, "x").begin() is ErrorCode.NONE
            model.check(broker)
        outcomes.add(bool(model.committed))
        if is_over:
            break
    assert outcomes == {False, True}
