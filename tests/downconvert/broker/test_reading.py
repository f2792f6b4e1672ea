"""What a partition gives: bounded, cheap where there is nothing, and never stuck."""

import tracemalloc
import zlib
from io import BytesIO
from pathlib import Path
from struct import Struct
from typing import Any

import pytest

from downconvert import ConversionPolicy
from downconvert.broker import Broker, reading
from downconvert.broker.errors import ErrorCode
from downconvert.broker.fetch_assembly import convert_range
from downconvert.broker.partition import Partition
from downconvert.broker.reading import ConvertedSend, Limits, available, read_converted
from downconvert.broker.wire.schemas import ApiKey
from records import Codec, MemoryRecords, Record, build, build_marker, read
from records.control import ControlRecordType
from records.formats import BATCH_HEADER_SIZE
from tests.damage import repaired, spliced
from tests.downconvert.storage.logs import batch

from .asking import ask, begin
from .fetching import OLD_VERSIONS, broker_of, fetch, fetched, fetching, records_of, request

OFFSET = Struct(">q")
MARKER = build_marker(ControlRecordType.COMMIT, offset=0, timestamp=0, producer_id=1)
LIMITS = Limits(max_bytes=1000, first=True)


def markers(count: int, start: int = 0) -> bytes:
    """So many markers on end; the offset is not under the checksum."""
    rest = MARKER[OFFSET.size :]
    return b"".join(OFFSET.pack(offset) + rest for offset in range(start, start + count))


def of(broker: Broker, topic: str = "events") -> Partition:
    return broker.topics[topic].partitions[0]


def test_a_desert_is_gone_over_in_turns_and_what_is_behind_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each turn has a bound, so that nobody else waits for long."""
    monkeypatch.setattr("downconvert.broker.reading.SKIP_SIZE", 40_000)
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


@pytest.mark.parametrize("version", [4, 11])
def test_a_desert_is_gone_over_in_turns_for_new_clients_too(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("downconvert.broker.reading.BATCHES_A_TURN", 10)
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


def test_where_there_is_nothing_to_the_end_that_is_known(tmp_path: Path) -> None:
    """So that a client that waits there is not answered before there is more."""
    with broker_of(tmp_path, {"events": {0: [batch(0), markers(50, 1)]}}) as broker:
        found = read_converted(of(broker), 1, 51, LIMITS, magic=1, policy=ConversionPolicy())
    assert (found.records, found.source_size, found.seen_to) == (b"", 0, 51)


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_damage_behind_a_desert_is_an_error(version: int, tmp_path: Path) -> None:
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


def test_a_claim_of_many_records_costs_nothing(tmp_path: Path) -> None:
    bad = bytearray(batch(0, codec=Codec.GZIP))
    bad[BATCH_HEADER_SIZE - 4 : BATCH_HEADER_SIZE] = (2**31 - 1).to_bytes(4)
    with broker_of(tmp_path, {"events": {0: [repaired(bytes(bad))], 1: [batch(1)]}}) as broker:
        answer = fetch(broker, 3, "events", 0)
    assert answer.error_code in (ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE)


def test_as_many_bytes_are_available_as_a_fetch_would_get(tmp_path: Path) -> None:
    one = batch(0)
    with broker_of(tmp_path, {"events": {0: [one, batch(1)]}}) as broker:
        partition = of(broker)
        assert available(partition, 0, 2, 1_000) == 2 * len(one)
        assert available(partition, 1, 2, 1_000) == len(one)
        assert available(partition, 0, 2, 10) == 10
        assert available(partition, 2, 2, 1_000) == 0


def test_an_exact_size_needs_no_filler(tmp_path: Path) -> None:
    """Filler is what kafka-node 2 takes for records, and what stops kafka-go 0.1."""
    noise = [bytes(zlib.crc32(b"%d" % i).to_bytes(4) * 20) for i in range(200)]
    records = [Record(i, i, value=value) for i, value in enumerate(noise)]
    segments = {0: [build(records, codec=codec, magic=2) for codec in (Codec.GZIP,)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        for version in OLD_VERSIONS:
            body = request(broker, {"events": 0})
            answer = ask(broker, ApiKey.Fetch, version, body).responses[0].partitions[0]
            assert len(records_of(answer)) == 200


class Counted:
    """How many bytes of the log each turn converts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []

        def counted(records: Any, *args: Any) -> Any:
            self.sizes.append(records.size)
            return convert_range(records, *args)

        monkeypatch.setattr(reading, "convert_range", counted)


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_one_partition_that_is_compressed_is_converted_in_turns(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing is kept for others; what is has turns of its own."""
    monkeypatch.setattr(reading, "CONVERTED_SIZE", 64 * 1024)
    batches = [batch(n, n + 1, size=500, codec=Codec.GZIP) for n in range(0, 40, 2)]
    one = len(batches[0])
    monkeypatch.setattr(reading, "COMPRESSED_WEIGHT", 64 * 1024 // (3 * one))
    measures = ConversionPolicy(padding=False)
    config: dict[str, Any] = {"conversions_kept_bytes": 0, "policy": measures}
    with broker_of(tmp_path, {"events": {0: batches[:15], 30: batches[15:]}}, **config) as broker:
        counted = Counted(monkeypatch)
        exchange = fetching(broker, version, "events", 0, now=0.0, max_wait_ms=0)
        turns = 1
        while not exchange.is_done:
            broker.tick(0.0)
            turns += 1
        found = [record.offset for record in records_of(fetched(exchange))]
        assert found == list(range(30))
        assert turns == len(counted.sizes) >= 4
        assert max(counted.sizes) <= 5 * one
        hard = fetching(broker, version, "events", 0, now=0.0, max_wait_ms=0, max_bytes=5 * one)
        while not hard.is_done:
            broker.tick(0.0)
        some = [record.offset for record in records_of(fetched(hard))]
        assert some == list(range(len(some)))
        assert some


def test_what_is_decompressed_to_be_measured_has_turns_under_every_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A size that is not compressed again cannot be predicted."""
    batches = [batch(n, n + 1, size=500, codec=Codec.GZIP) for n in range(0, 40, 2)]
    one = len(batches[0])
    monkeypatch.setattr(reading, "CONVERTED_SIZE", 3 * one * reading.COMPRESSED_WEIGHT)
    policy = ConversionPolicy(recode={"gzip": "none"})
    config: dict[str, Any] = {"conversions_kept_bytes": 0, "policy": policy}
    with broker_of(tmp_path, {"events": {0: batches}}, **config) as broker:
        counted = Counted(monkeypatch)
        exchange = fetching(broker, 2, "events", 0, now=0.0, max_wait_ms=0)
        while not exchange.is_done:
            broker.tick(0.0)
        assert len(records_of(fetched(exchange))) == 40
    assert len(counted.sizes) >= 6
    assert max(counted.sizes) <= 4 * one


def test_damage_behind_several_turns_is_for_the_next_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CONVERTED_SIZE", 1)
    batches = [batch(n, n + 1, size=500, codec=Codec.GZIP) for n in range(0, 10, 2)]
    bad = bytearray(batches[3])
    bad[-1] ^= 1
    segments = {0: [*batches[:3], bytes(bad), batches[4]]}
    measures = ConversionPolicy(padding=False)
    with broker_of(tmp_path, {"events": segments}, policy=measures) as broker:
        exchange = fetching(broker, 3, "events", 0, now=0.0, max_wait_ms=0)
        while not exchange.is_done:
            broker.tick(0.0)
        assert [record.offset for record in records_of(fetched(exchange))] == list(range(6))
        following = fetching(broker, 3, "events", 6, now=0.0, max_wait_ms=0)
        assert fetched(following).error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_a_size_that_is_predicted_is_that_of_the_whole_range(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent converts in turns of its own: there is nothing to bound before."""
    monkeypatch.setattr(reading, "CONVERTED_SIZE", 1)
    batches = [batch(n, n + 1, size=500, codec=Codec.GZIP) for n in range(0, 40, 2)]
    with broker_of(tmp_path, {"events": {0: batches}}) as broker:
        exchange = fetching(broker, version, "events", 0, now=0.0, max_wait_ms=0)
        assert exchange.is_done
        assert len(records_of(fetched(exchange))) > len(batches)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("trim", [True, False])
def test_a_batch_that_ends_in_what_compaction_took_does_not_come_again(
    codec: Codec, trim: bool, tmp_path: Path
) -> None:
    """Untrimmed it holds only what the client has, and drops: it would ask for it for ever."""
    thinned = batch(0, base_offset=0, last_offset=5, codec=codec)
    following = batch(6, codec=codec)
    policy = ConversionPolicy(trim_compressed=trim)
    limits = Limits(max_bytes=len(thinned), first=True)  # no room for the next one besides
    with broker_of(tmp_path, {"events": {0: [thinned, following]}}) as broker:
        partition = of(broker)
        found = read_converted(partition, 1, 7, limits, magic=1, policy=policy)
        assert isinstance(found.records, ConvertedSend)
        answer = BytesIO()
        while not found.records.completed:
            found.records.write_to(answer)
        assert [record.offset for record in read(MemoryRecords(answer.getvalue()))] == [6]
        at_the_end = read_converted(partition, 1, 6, limits, magic=1, policy=policy)
        assert (at_the_end.records, at_the_end.seen_to) == (b"", 6)
