"""Records as they are: in turns where there is nothing, and looked at cheaply."""

from pathlib import Path
from random import Random

import pytest

from downconvert.broker.fetch import planning
from downconvert.broker.fetch.contribution import Contribution, FetchPause, Reading, ReadLimits
from downconvert.broker.fetch.reading import all_available, available, read_as_is
from downconvert.conversion.recode import READ_COST
from downconvert.protocol.schemas import ApiKey
from records import Codec, Record, build
from records.files.zero_copy import ZeroCopySend
from records.units import MiB
from tests.downconvert.broker.asking import begin
from tests.downconvert.broker.fetching import broker_of, fetched, fetching, records_of, request
from tests.downconvert.storage.logs import batch

from .reading import MARKER, Counted, markers, of


@pytest.mark.parametrize("version", [4, 11])
def test_ranges_without_records_are_skipped_in_turns_for_new_clients_too(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("downconvert.broker.fetch.reading.BATCHES_A_TURN", 10)
    segments = {0: [markers(30)], 30: [markers(30, 30), batch(60)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        asked = request(broker, {"events": 5}, max_bytes=len(MARKER) * 15)
        exchange = begin(broker, ApiKey.Fetch, version, asked, now=1.0)
        turns = 1
        while not exchange.is_done:
            broker.tick(1.0 + turns)
            turns += 1
        assert [one.offset for one in records_of(fetched(exchange))] == [60]
    assert turns >= 2


def test_as_many_bytes_are_available_as_a_fetch_would_get(tmp_path: Path) -> None:
    one = batch(0)
    with broker_of(tmp_path, {"events": {0: [one, batch(1)]}}) as broker:
        partition = of(broker)
        assert available(partition, 0, 2, 1_000) == 2 * len(one)
        assert available(partition, 1, 2, 1_000) == len(one)
        assert available(partition, 0, 2, 10) == 10
        assert available(partition, 2, 2, 1_000) == 0


VALUES = [bytes([n % 256]) * 400 + Random(n).randbytes(400) for n in range(5_000)]
LARGE = build([Record(n, 1, value=v) for n, v in enumerate(VALUES)], magic=2, codec=Codec.ZSTD)


def test_no_turn_is_longer_for_a_large_batch_in_another_codec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with broker_of(tmp_path, {"events": {0: [LARGE, batch(len(VALUES))]}}) as broker:
        counted = Counted(monkeypatch)
        exchange = fetching(broker, 9, "events", 0, now=0.0, max_bytes=2**26)
        counted.end_turn()
        assert not counted.turns[0], "a large range begins in a turn of its own"
        broker.tick(0.0)
        counted.end_turn()
        assert broker.planning_slots
        while not exchange.is_done:
            broker.tick(0.0)
            counted.end_turn()
        assert not broker.planning_slots
        assert max(counted.turns) <= MiB
        assert sum(counted.turns) > len(VALUES) * 800
        assert len(records_of(fetched(exchange))) == len(VALUES) + 1


def test_many_headers_are_looked_at_in_turns_where_a_codec_might_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what needs no other codec goes out by zero copy."""
    monkeypatch.setattr(planning, "PLANNED_A_TURN", 10 * READ_COST)
    with broker_of(tmp_path, {"events": {0: [batch(n) for n in range(50)]}}) as broker:
        exchange = fetching(broker, 9, "events", 0, now=0.0)
        turns = 1
        while not exchange.is_done:
            broker.tick(0.0)
            turns += 1
        assert exchange.send is not None
        assert [type(part) for part in exchange.send.records] == [ZeroCopySend]
        assert len(records_of(fetched(exchange))) == 50
    assert turns >= 5


def as_is(reading: Contribution | Reading) -> tuple[Contribution, int]:
    """The outcome, and the number of pauses before it."""
    if isinstance(reading, Contribution):
        return reading, 0
    pauses = 0
    while True:
        try:
            assert next(reading) is FetchPause.TURN
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


def test_records_that_do_not_fit_stay_to_be_scanned(tmp_path: Path) -> None:
    """Otherwise a fetch would wait, although its records are there."""
    one = batch(0)
    limits = ReadLimits(len(one) - 1, first=False)
    with broker_of(tmp_path, {"events": {0: [one, batch(1)]}}) as broker:
        found, _ = as_is(read_as_is(of(broker), 0, 2, limits))
        assert (found.records, found.source_size, found.scanned_end_offset) == (b"", 0, 0)
        found, _ = as_is(read_as_is(of(broker), 0, 2, limits._replace(first=True)))
        assert found.source_size >= len(one) - 1


def test_nothing_is_scanned_below_an_offset_after_the_last_stable_one(tmp_path: Path) -> None:
    limits = ReadLimits(1_000, first=True)
    with broker_of(tmp_path, {"events": {0: [batch(0), batch(1), batch(2)]}}) as broker:
        found, _ = as_is(read_as_is(of(broker), 2, 1, limits))
    assert (found.source_size, found.scanned_end_offset) == (0, 2)


def test_batches_without_records_count_together_towards_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds if each read finds only a few of them."""
    monkeypatch.setattr("downconvert.broker.fetch.reading.BATCHES_A_TURN", 10)
    limits = ReadLimits(4 * len(MARKER), first=True)
    with broker_of(tmp_path, {"events": {0: [markers(50), batch(50)]}}) as broker:
        found, pauses = as_is(read_as_is(of(broker), 0, 51, limits))
    assert found.source_size == len(batch(50))
    assert 3 <= pauses <= 5


def test_nothing_is_available_from_a_log_that_became_shorter(tmp_path: Path) -> None:
    """The fetch still waits at an offset that a truncation has taken away."""
    with broker_of(tmp_path, {"events": {0: [batch(0), batch(1)]}}) as broker:
        assert available(of(broker), 5, 2, 1_000) == 0


def test_all_available_bytes_are_known_only_if_they_are_few(tmp_path: Path) -> None:
    one, two = batch(0), batch(1, 2, 3, size=30)
    segments = {0: [one, two], 7: [batch(7)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        partition = of(broker)
        size = len(one) + len(two)
        assert all_available(partition, 0, 4, size + 1) == size
        assert all_available(partition, 0, 4, size) is None  # enough
        assert all_available(partition, 1, 3, 1_000) == 0  # a batch is there whole, or not at all
        assert all_available(partition, 4, 7, 1_000) == 0  # compaction has left nothing there
        assert all_available(partition, 0, 8, 1_000) is None  # the next segment has more
        assert all_available(partition, 7, 8, 1_000) == len(batch(7))
        assert all_available(partition, 8, 8, 1_000) == 0


def test_offsets_that_fall_where_there_is_nothing_are_passed(tmp_path: Path) -> None:
    segment = [batch(0), markers(1, 5), markers(1, 2), batch(9)]
    with broker_of(tmp_path, {"events": {0: segment}}) as broker:
        for offset in (1, 3, 5):
            found, _ = as_is(read_as_is(of(broker), offset, 10, ReadLimits(10, first=True)))
            assert found.source_size == len(batch(9))
