"""Reading for old clients is bounded, cheap where there are no records, and never stuck."""

import tracemalloc
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords
from downconvert.broker import Client, Exchange, Owner
from downconvert.broker.fetch import planning
from downconvert.broker.fetch.contribution import (
    ReadLimits,
)
from downconvert.conversion.plan import SMALL_SIZE_MAX
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey
from downconvert.serving.buffered_send import BufferedConversion
from downconvert.serving.planning_slots import PlanningSlots
from records import (
    Codec,
    MemoryRecords,
    Record,
    TimestampType,
    build,
    read,
)
from records.formats import BATCH_HEADER_SIZE
from records.units import MiB
from tests.damage import repaired, spliced
from tests.downconvert.broker.asking import ask, begin, sent
from tests.downconvert.broker.fetching import (
    OLD_VERSIONS,
    broker_of,
    fetch,
    fetched,
    fetching,
    records_of,
    request,
)
from tests.downconvert.storage.logs import batch

from .reading import MARKER, Counted, converted, markers, of

LIMITS = ReadLimits(max_bytes=1000, first=True)

HALVES = [bytes([n % 256]) * 400 + Random(n).randbytes(400) for n in range(5_000)]
LARGE = build([Record(n, 1, value=v) for n, v in enumerate(HALVES)], magic=2, codec=Codec.LZ4)
FOLLOWS = build(
    [Record(len(HALVES) + n, 1, value=v) for n, v in enumerate(HALVES)], magic=2, codec=Codec.LZ4
)


def test_ranges_without_records_are_skipped_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each turn has a bound, so that nobody else waits for long."""
    monkeypatch.setattr("downconvert.broker.fetch.reading_converted.SKIP_SIZE", 40_000)
    count = 100_000 // len(MARKER)
    segments = {0: [markers(count)], count: [markers(7, count), batch(count + 7)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        exchange = begin(broker, ApiKey.Fetch, 3, request(broker, {"events": 5}), now=1.0)
        turns, now = 1, 1.0  # the first is the request's own
        while not exchange.is_done:
            now = broker.tick(now) or now
            turns += 1
        assert [one.offset for one in records_of(fetched(exchange))] == [count + 7]
    assert turns >= 2
    assert now < 1.01


def test_a_range_without_records_is_scanned_to_its_end(tmp_path: Path) -> None:
    """So that a client that waits there is not answered before there is more."""
    with broker_of(tmp_path, {"events": {0: [batch(0), markers(50, 1)]}}) as broker:
        found = converted(of(broker), 1, 51, LIMITS, ConversionPolicy())
    assert (found.records, found.source_size, found.scanned_end_offset) == (b"", 0, 51)


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_damage_after_a_range_without_records_is_an_error(version: int, tmp_path: Path) -> None:
    bad = spliced(batch(60, codec=Codec.GZIP), BATCH_HEADER_SIZE, b"no gzip", drop=7)
    segments = {0: [markers(50), bad], 61: [batch(61)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        assert fetch(broker, version, "events", 0).error_code == ErrorCode.CORRUPT_MESSAGE


def test_a_bomb_costs_no_memory(tmp_path: Path) -> None:
    """A batch that expands to a thousand times its size, all of it one record."""
    bomb = build([Record(0, 0, value=bytes(50_000_000))], codec=Codec.GZIP, magic=2)
    with broker_of(tmp_path, {"events": {0: [bomb], 1: [batch(1)]}}) as broker:
        tracemalloc.start()
        exchange = begin(broker, ApiKey.Fetch, 3, request(broker, {"events": 0}))
        while not exchange.is_done:
            broker.tick(1.0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert fetched(exchange).error_code == ErrorCode.NONE
    assert peak < 8_000_000


def test_a_claim_of_many_records_allocates_nothing(tmp_path: Path) -> None:
    """The one good record is sent, as all that is good before damage."""
    bad = bytearray(batch(0, codec=Codec.GZIP))
    bad[BATCH_HEADER_SIZE - 4 : BATCH_HEADER_SIZE] = (2**31 - 1).to_bytes(4)
    with broker_of(tmp_path, {"events": {0: [repaired(bytes(bad))], 1: [batch(1)]}}) as broker:
        fetch(broker, 3, "events", 1)  # buffers that every conversion needs
        tracemalloc.start()
        response = fetch(broker, 3, "events", 0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert response.error_code == ErrorCode.NONE
    assert [record.offset for record in records_of(response)] == [0]
    assert peak < 2 * MiB


def test_an_exact_size_needs_no_filler(tmp_path: Path) -> None:
    """Filler is what kafka-node 2 takes for records, and what stops kafka-go 0.1."""
    noise = [bytes(zlib.crc32(b"%d" % i).to_bytes(4) * 20) for i in range(200)]
    records = [Record(i, i, value=value) for i, value in enumerate(noise)]
    segments = {0: [build(records, codec=codec, magic=2) for codec in (Codec.GZIP,)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        for version in OLD_VERSIONS:
            body = request(broker, {"events": 0})
            response = ask(broker, ApiKey.Fetch, version, body).responses[0].partitions[0]
            assert len(records_of(response)) == 200
            messages = MemoryRecords(bytes(response.records)).batches()
            assert sum(message.size for message in messages) == len(response.records)


@pytest.mark.parametrize(
    "policy",
    [ConversionPolicy(), ConversionPolicy(recode={"lz4": "none"})],
    ids=["compressed", "decompressed"],
)
@pytest.mark.parametrize("kept", [0, 2**24])
def test_no_turn_is_longer_for_a_large_batch(
    policy: ConversionPolicy, kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config: dict[str, Any] = {"conversions_kept_bytes": kept, "policy": policy}
    with broker_of(tmp_path, {"events": {0: [LARGE, FOLLOWS]}}, **config) as broker:
        counted = Counted(monkeypatch)
        exchange = fetching(broker, 2, "events", 0, now=0.0, max_bytes=2**26)
        counted.end_turn()
        while not exchange.is_done:
            broker.tick(0.0)
            counted.end_turn()
        # A compressed message is made in one go, of 1 MiB.
        assert max(counted.turns) <= 2 * MiB
        found = [record.offset for record in records_of(fetched(exchange))]
    assert found == list(range(len(found)))
    assert len(found) > len(HALVES) // 5  # a fetch need not bring all of a large batch
    assert not broker.planning_slots


@pytest.mark.parametrize("kept", [0, 2**24])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_batch_that_becomes_plain_begins_with_the_record_that_was_asked_for(
    magic: int, kept: int, tmp_path: Path
) -> None:
    """The same holds if clients share it: a compressed v0 or v1 message does not say where it
    begins."""
    kind = TimestampType.CREATE if magic else TimestampType.NONE
    records = [Record(n, n if magic else -1, kind, None, b"value") for n in range(5)]
    data = build(records, magic=magic, codec=Codec.LZ4)
    config: dict[str, Any] = {
        "conversions_kept_bytes": kept,
        "policy": ConversionPolicy(recode={"lz4": "none"}),
    }
    with broker_of(tmp_path, {"events": {0: [data]}}, **config) as broker:
        for offset in 0, 3, 4, 3:
            found = records_of(fetch(broker, 2, "events", offset))
            assert [one.offset for one in found] == list(range(offset, 5))


@pytest.mark.parametrize("kept", [0, 2**24])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_under_a_hard_limit_the_first_message_is_whole_also_where_the_second_does_not_fit(
    version: int, kept: int, tmp_path: Path
) -> None:
    noise = Random(1)
    records = [Record(n, 1, value=noise.randbytes(60_000)) for n in range(4)]
    batches = [build([record], magic=2, codec=Codec.GZIP) for record in records]
    # Fewer bytes than the first message, up to all of them.
    limits = [1_000, 60_500, 100_000, 119_000, 121_000, 200_000, 300_000]
    with broker_of(tmp_path, {"events": {0: batches}}, conversions_kept_bytes=kept) as broker:
        for limit in limits:
            response = fetch(broker, version, "events", 0, max_bytes=limit).records
            first, *_ = MemoryRecords(bytes(response)).batches()
            assert first.size <= len(response) <= max(limit, first.size)
            found, offset = [], 0
            while offset < len(records):
                part = records_of(fetch(broker, version, "events", offset, max_bytes=limit))
                found += part
                offset = part[-1].offset + 1
            assert [one.value for one in found] == [one.value for one in records]


def test_few_clients_hold_a_plan_at_a_time_and_all_get_their_responses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait, without a turn, until they are woken."""
    monkeypatch.setattr(planning, "PLANNED_A_TURN", MiB)
    with broker_of(tmp_path, {"events": {0: [LARGE]}}, conversions_kept_bytes=0) as broker:
        broker.planning_slots = PlanningSlots(2)
        owners = [Owner() for _ in range(5)]
        waiting = [
            fetching(broker, 2, "events", 0, now=0.0, client=Client(n, "h"), owner=owner)
            for n, owner in enumerate(owners)
        ]
        assert not broker.planning_slots, "a large range begins in the next turn"
        for owner in owners:
            broker.run_turn(owner, 0.0)
        assert [owner.has_work for owner in owners] == [True, True, False, False, False]
        broker.finished(waiting.pop(2))  # its client has gone, and nobody waits for it
        while any(owner.has_work for owner in owners):
            for owner in owners:
                broker.run_due(owner, 0.0) or broker.run_turn(owner, 0.0)
            assert len(broker.planning_slots) <= 2
        responses = {len(sent(exchange)) for exchange in waiting}
    assert len(responses) == 1
    assert not broker.planning_slots


def test_a_client_that_has_gone_holds_no_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "PLANNED_A_TURN", MiB)
    with broker_of(tmp_path, {"events": {0: [LARGE]}}, conversions_kept_bytes=0) as broker:
        owner = Owner()
        exchange = fetching(broker, 2, "events", 0, now=0.0, owner=owner)
        broker.run_turn(owner, 0.0)
        assert broker.planning_slots
        broker.finished(exchange)
        assert not broker.planning_slots
        broker.run_turn(owner, 0.0)
        assert not owner.has_work


def test_a_plan_is_released_when_its_client_has_gone_and_not_when_it_is_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector may run in any thread, in the midst of what the release would lock."""
    released: list[str] = []

    def in_steps(*_: object) -> Iterator[int]:
        try:
            while True:
                yield planning.PLANNED_A_TURN
        finally:
            released.append("buffers")

    monkeypatch.setattr(LazyDownConvertRecords, "in_steps", in_steps)
    with broker_of(tmp_path, {"events": {0: [batch(0)]}}, conversions_kept_bytes=0) as broker:
        broker.planning_slots = PlanningSlots(1)
        owners = Owner(), Owner()
        plans, waits = (
            fetching(broker, 2, "events", 0, now=0.0, client=Client(n, "h"), owner=owner)
            for n, owner in enumerate(owners)
        )
        released.clear()  # of the one that waits, which holds nothing
        broker.finished(waits)
        assert not released
        broker.finished(plans)
        assert released == ["buffers"]


def test_a_fetch_waits_without_a_turn_for_a_chunk_that_another_thread_converts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is woken when the other's turn is over, and blocks nobody until then."""
    with broker_of(tmp_path, {"events": {0: [batch(*range(50), codec=Codec.GZIP)]}}) as broker:
        other = Owner()
        found: list[Exchange] = []
        run = BufferedConversion.run

        def met(keeping: BufferedConversion, work: int | None = None) -> int:
            if not found:  # the other thread asks in the midst of this one's turn
                client = Client(2, "h")
                found.append(fetching(broker, 2, "events", 0, now=0.0, client=client, owner=other))
                assert not found[0].is_done
                assert not other.has_work
            return run(keeping, work)

        broker.finished(fetching(broker, 2, "events", 0, now=0.0, client=Client(3, "h")))
        monkeypatch.setattr(BufferedConversion, "run", met)
        first = fetching(broker, 2, "events", 0, now=0.0)
        assert first.is_done
        assert other.has_work
        broker.run_due(other, 0.0)
        assert sent(found[0]) == sent(first)
        assert broker.conversion_cache.misses == 2


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("trim", [True, False])
def test_a_batch_whose_last_records_were_compacted_away_is_not_returned_again(
    codec: Codec, trim: bool, tmp_path: Path
) -> None:
    """Untrimmed it holds only what the client has, and drops: it would ask for it for ever."""
    thinned = batch(0, base_offset=0, last_offset=5, codec=codec)
    following = batch(6, codec=codec)
    policy = ConversionPolicy(trim_compressed=trim)
    limits = ReadLimits(max_bytes=len(thinned), first=True)  # no room for the next one besides
    with broker_of(tmp_path, {"events": {0: [thinned, following]}}) as broker:
        partition = of(broker)
        found = converted(partition, 1, 7, limits, policy)
        assert not isinstance(found.records, bytes)
        response = BytesIO()
        while not found.records.completed:
            found.records.write_to(response)
        assert [record.offset for record in read(MemoryRecords(response.getvalue()))] == [6]
        at_the_end = converted(partition, 1, 6, limits, policy)
        assert (at_the_end.records, at_the_end.scanned_end_offset) == (b"", 6)


def test_a_plain_response_of_the_usual_size_is_planned_in_one_turn(tmp_path: Path) -> None:
    """It needs no slot."""
    segment = [batch(*range(n, n + 100), size=1000) for n in range(0, 1_100, 100)]
    with broker_of(tmp_path, {"events": {0: segment}}, conversions_kept_bytes=0) as broker:
        exchange = fetching(broker, 2, "events", 0, now=0.0, max_bytes=2**20)
        assert not exchange.is_done, "it is more than 64 KiB, and begins after other requests"
        broker.tick(0.0)
        assert exchange.is_done


@pytest.mark.parametrize("kept", [0, 2**24])
@pytest.mark.parametrize(("size", "is_done"), [(SMALL_SIZE_MAX, True), (SMALL_SIZE_MAX + 1, False)])
def test_large_ranges_of_old_clients_begin_in_a_turn_of_their_own(
    tmp_path: Path, kept: int, size: int, is_done: bool
) -> None:
    """They connect again at once, and each begins in a turn of its own. Small ranges do not."""
    whole = build([Record(0, 1, value=bytes(size))], magic=2)
    one = build([Record(0, 1, value=bytes(2 * size - len(whole)))], magic=2)
    assert len(one) == size
    with broker_of(tmp_path, {"events": {0: [one]}}, conversions_kept_bytes=kept) as broker:
        owner = Owner()
        waiting = [
            fetching(broker, 2, "events", 0, now=0.0, client=Client(n, "h"), owner=owner)
            for n in range(5)
        ]
        assert [exchange.is_done for exchange in waiting] == [is_done] * 5
        for count in range(1, 6):
            broker.run_turn(owner, 0.0)
            assert sum(exchange.is_done for exchange in waiting) == (5 if is_done else count)
        assert len({sent(exchange) for exchange in waiting}) == 1
