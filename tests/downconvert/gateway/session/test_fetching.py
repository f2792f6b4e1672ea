"""Fetch v0-v3 through the gateway, with the responses that real old clients tripped over."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from downconvert import ConversionPolicy
from downconvert.broker import Broker, BrokerConfig, ErrorCode
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.session.exchanges import Ask
from downconvert.gateway.session.turns import Parts
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey
from downconvert.storage import LogDir
from records import (
    Codec,
    MemoryRecords,
    Record,
    build,
    build_empty,
)
from records.formats import ATTRIBUTES_AT_BATCH
from tests import corpus
from tests.downconvert.gateway.cluster import Through, append, modern
from tests.downconvert.gateway.talk import (
    fetch,
    marker,
    message_set,
    produce,
    records_of,
    values_of,
)
from tests.downconvert.storage.logs import batch


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
@pytest.mark.parametrize("codec", list(Codec))
def test_clients_get_the_format_that_they_read(
    broker: Broker, through: Through, version: int, magic: int, codec: Codec
) -> None:
    append(broker, batch(0, 1, 2, codec=codec), batch(3, 4, codec=codec))
    (part,) = fetch(through, version, 0)
    assert {header.magic for header in MemoryRecords(part.records).batches()} == {magic}
    assert [record.offset for record in records_of(part)] == [0, 1, 2, 3, 4]
    assert (part.error_code, part.high_watermark) == (ErrorCode.NONE, 5)


def test_headers_are_read_one_by_one_only_where_more_might_be_joined(
    broker: Broker, through: Through, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []  # bytes of the responses whose headers were
    read_headers = Parts.__dict__["scanned"].func

    def counted(self: Parts) -> object:
        read.append(self.records.size)
        return read_headers(self)

    monkeypatch.setattr(Parts, "scanned", property(counted))
    append(broker, *(batch(offset, size=5000) for offset in range(40)))
    (part,) = fetch(through, 1, 0, max_bytes=1 << 22)
    assert (len(values_of(part)), read) == (40, [])
    (part,) = fetch(through, 1, 38, max_bytes=1 << 22)
    assert len(values_of(part)) == 2
    assert (len(read), read[0] > 5000) == (1, True)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("version", range(4))
def test_a_limit_below_the_first_batch_is_kept_but_for_a_first_message(
    broker: Broker, through: Through, version: int, codec: Codec
) -> None:
    """Below version 3, where limits of partitions are hard; later a first batch comes whole."""
    append(broker, batch(*range(20), size=100, codec=codec), batch(20, codec=codec))
    (part,) = fetch(through, version, 0, max_bytes=1)
    whole = list(MemoryRecords(part.records).batches())
    assert [header.base_offset for header in whole] == (
        list(range(20)) if version == 3 and not codec else [whole[0].base_offset]
    )
    (part,) = fetch(through, version, 0, max_bytes=500)
    assert len(part.records) == 500 or version == 3 or codec


@pytest.mark.parametrize("version", range(4))
def test_the_response_has_no_filler_and_no_repeats(
    broker: Broker, through: Through, version: int
) -> None:
    append(broker, marker(0), batch(1, 2), batch(3))
    (part,) = fetch(through, version, 0)
    assert [record.offset for record in records_of(part)] == [1, 2, 3]


@pytest.mark.parametrize("version", range(4))
def test_a_client_is_never_stuck_where_everything_converts_to_nothing(
    broker: Broker, through: Through, version: int
) -> None:
    for offset in range(40):
        empty = build_empty(base_offset=offset, last_offset=offset, producer_id=1)
        append(broker, empty)
        broker.topics.partition("t", 0).log.writer.roll()  # type: ignore[union-attr]
    append(broker, batch(40))
    (part,) = fetch(through, version, 0, max_bytes=100)
    assert [record.offset for record in records_of(part)] == [40]


def test_an_end_of_markers_only_is_an_empty_set(broker: Broker, through: Through) -> None:
    append(broker, batch(0), marker(1))
    (part,) = fetch(through, 1, 1)
    assert (part.error_code, bytes(part.records), part.high_watermark) == (0, b"", 2)


@pytest.mark.parametrize("version", range(4))
def test_small_segments_come_in_one_response_up_to_what_was_asked_for(
    broker: Broker, through: Through, version: int
) -> None:
    """Some clients never get over a gap in the offsets between two responses."""
    for offset in range(0, 20, 2):
        append(broker, batch(offset, codec=Codec.GZIP))
        broker.topics.partition("t", 0).log.writer.roll()  # type: ignore[union-attr]
    (part,) = fetch(through, version, 0)
    assert [record.offset for record in records_of(part)] == list(range(0, 20, 2))
    size = len(batch(0, codec=Codec.GZIP))
    (part,) = fetch(through, version, 0, max_bytes=3 * size + 10)
    assert [record.offset for record in records_of(part)] == [0, 2, 4]


@pytest.mark.parametrize("version", range(3))
def test_a_hard_limit_holds_for_all_that_the_cluster_was_asked_for(
    broker: Broker, through: Through, version: int
) -> None:
    """Small records take more room in old formats: what fits as it is may not as it is sent."""
    for offset in range(0, 50, 10):
        append(broker, batch(*range(offset, offset + 10), size=20))
        broker.topics.partition("t", 0).log.writer.roll()  # type: ignore[union-attr]
    limit = 4 * len(batch(*range(10), size=20)) + 10
    (part,) = fetch(through, version, 0, max_bytes=limit)
    assert len(part.records) == limit
    (whole,) = fetch(through, version, 0)
    assert bytes(whole.records).startswith(bytes(part.records))


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("limit", [1_000, 60_500, 119_000, 121_000, 200_000])
def test_under_a_hard_limit_the_first_message_is_whole_also_where_the_second_does_not_fit(
    broker: Broker, through: Through, version: int, limit: int
) -> None:
    noise = Random(1)
    for offset in range(3):
        record = Record(offset, 1, value=noise.randbytes(60_000))
        append(broker, build([record], magic=2, codec=Codec.GZIP))
    for offset in range(3):
        (part,) = fetch(through, version, offset, max_bytes=limit)
        first, *_ = MemoryRecords(part.records).batches()
        assert first.last_offset == offset
        assert first.size <= len(part.records) <= max(limit, first.size)


@pytest.mark.parametrize("version", range(4))
def test_a_response_is_as_large_as_its_own_messages(
    broker: Broker, through: Through, version: int
) -> None:
    """gzip cannot follow what zstd finds again far away: the first batch grows twentyfold."""
    far = Random(8).randbytes(40_000)
    append(broker, build([Record(n, 0, value=far) for n in range(8)], magic=2, codec=Codec.ZSTD))
    for offset in range(8, 16):
        record = Record(offset, 1, value=Random(offset).randbytes(60_000))
        append(broker, build([record], magic=2, codec=Codec.ZSTD))
    (part,) = fetch(through, version, 0, max_bytes=1 << 22)
    messages = list(MemoryRecords(part.records).batches())
    assert sum(message.size for message in messages) == len(part.records) < 600_000
    values = sum(len(record.value or b"") for record in records_of(part))
    assert len(part.records) < 1.01 * values


def test_damage_after_found_records_is_left_to_the_next_fetch(broker: Broker) -> None:
    append(broker, batch(0))
    broker.topics.partition("t", 0).log.writer.roll()  # type: ignore[union-attr]
    append(broker, batch(1))
    responses = []

    def tamper(ask: Ask, response: bytes) -> bytes:
        if ask.api is not ApiKey.Fetch:
            return response
        responses.append(ask)
        return response if len(responses) == 1 else response[:-33] + b"\xff" * 30 + response[-3:]

    (part,) = fetch(Through(broker, tamper=tamper), 1, 0)
    assert len(responses) == 2
    assert (part.error_code, [record.offset for record in records_of(part)]) == (0, [0])


def test_a_client_behind_an_end_of_markers_waits_and_does_not_spin(broker: Broker) -> None:
    append(broker, marker(0))
    policy = ConversionPolicy(isolation="read_committed")  # its clients get markers
    through = Through(broker, GatewayConfig(bootstrap=(Address("c", 1),), policy=policy))
    fetch(through, 1, 0, wait=500)
    waits = [ask.body.max_wait_ms for ask in through.asked if ask.api is ApiKey.Fetch and ask.body]
    assert waits == [500, 500]
    (ask,) = [ask for ask in through.asked if ask.api is ApiKey.Fetch][1:]
    assert ask.body is not None
    assert ask.body.topics[0].partitions[0].fetch_offset == 1


def test_no_message_below_the_offset_asked_for_is_sent(broker: Broker, through: Through) -> None:
    append(broker, batch(0, 1, 2, 3, codec=Codec.GZIP))
    (part,) = fetch(through, 1, 2)
    assert [record.offset for record in records_of(part)] == [2, 3]


def test_a_partition_behind_one_that_is_full_gets_something_too(
    broker: Broker, through: Through
) -> None:
    append(broker, batch(0, size=5000))
    append(broker, batch(0, size=5000), partition=1)
    first, second = fetch(through, 1, 0, 0, max_bytes=1000)
    assert len(records_of(first)) == len(records_of(second)) == 1


def test_an_error_is_that_partitions_alone_and_its_set_is_empty(
    broker: Broker, through: Through
) -> None:
    append(broker, batch(0))
    good, bad = fetch(through, 1, 0, 7)
    assert [record.offset for record in records_of(good)] == [0]
    assert (bad.error_code, bytes(bad.records)) == (ErrorCode.OFFSET_OUT_OF_RANGE, b"")


def test_aborted_records_are_left_out_where_that_is_asked_for(broker: Broker) -> None:
    append(broker, batch(0, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    append(broker, marker(1), batch(2))
    everything = Through(broker)
    assert [r.offset for r in records_of(fetch(everything, 1, 0)[0])] == [0, 2]
    policy = ConversionPolicy(isolation="read_committed")
    committed = Through(broker, GatewayConfig(bootstrap=(Address("c", 1),), policy=policy))
    assert [r.offset for r in records_of(fetch(committed, 1, 0)[0])] == [2]


def test_damage_in_the_clusters_response_is_reported_as_damage(broker: Broker) -> None:
    append(broker, batch(0))

    def tamper(ask: Ask, response: bytes) -> bytes:
        if ask.api is not ApiKey.Fetch:
            return response
        return response[:-33] + b"\xff" * 30 + response[-3:]  # in the midst of the records

    (part,) = fetch(Through(broker, tamper=tamper), 1, 0)
    assert (part.error_code, bytes(part.records)) == (ErrorCode.CORRUPT_MESSAGE, b"")


@pytest.mark.parametrize("version", [1, 3])
def test_damage_that_only_a_header_shows_is_reported_as_damage(
    broker: Broker, version: int
) -> None:
    """A conversion skips a control batch, whatever its codec may be."""
    data = batch(0)
    append(broker, data)

    def tamper(ask: Ask, response: bytes) -> bytes:
        at = response.find(data[ATTRIBUTES_AT_BATCH:])
        if ask.api is not ApiKey.Fetch or at < 0:
            return response
        return response[:at] + b"\xff\xff" + response[at + 2 :]

    (part,) = fetch(Through(broker, tamper=tamper), version, 0)
    assert (part.error_code, bytes(part.records)) == (ErrorCode.CORRUPT_MESSAGE, b"")


def test_a_refused_codec_gets_kafkas_error(broker: Broker) -> None:
    append(broker, batch(0, codec=Codec.ZSTD))
    policy = replace(ConversionPolicy(), recode={"zstd": "refuse"})
    through = Through(broker, GatewayConfig(bootstrap=(Address("c", 1),), policy=policy))
    (part,) = fetch(through, 1, 0)
    assert part.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_conversions_are_counted(broker: Broker, through: Through) -> None:
    append(broker, batch(0, 1, 2))
    fetch(through, 1, 0)
    (row,) = (row for row in through.shared.census.rows() if row["api"] == "Fetch")
    assert (row["translated"], row["records_converted"]) == (1, 3)


@pytest.mark.parametrize("version", [1, 3])
def test_everything_of_the_corpus_is_read_from_the_first_offset_to_the_last(
    tmp_path: Path, version: int
) -> None:
    """As a client reads: from the offset after its last record."""
    for name in corpus.inputs()[::12]:
        lines = corpus.records(name)
        directory = tmp_path / name / "t-0"
        directory.mkdir(parents=True)
        (directory / "00000000000000000000.log").write_bytes(corpus.segment(name))
        with LogDir.open(directory.parent) as log_dir:
            through = Through(modern(Broker(log_dir, BrokerConfig())))
            assert offsets_read(through, version) == expected_offsets(lines), name


def offsets_read(through: Through, version: int) -> list[int]:
    offset, seen = 0, list[int]()
    while found := records_of(fetch(through, version, offset, max_bytes=2000)[0]):
        assert found[0].offset >= offset
        seen += [record.offset for record in found]
        offset = seen[-1] + 1
    return seen


def expected_offsets(lines: list[dict[str, Any]]) -> list[int]:
    is_control, offsets = False, []
    for line in lines:
        if "batch" in line:
            is_control = line["batch"]["control"]
        elif not is_control:
            offsets.append(line["offset"])
    return offsets


def test_old_consumers_read_records_of_old_producers(through: Through) -> None:
    produce(through, 0, message_set(0, b"a", b"b", codec=Codec.SNAPPY))
    produce(through, 2, message_set(1, b"c"))
    assert values_of(fetch(through, 0, 0)[0]) == [b"a", b"b", b"c"]


def committed_through(broker: Broker, **options: Any) -> Through:
    policy = ConversionPolicy(isolation="read_committed", **options)
    return Through(broker, GatewayConfig(bootstrap=(Address("c", 1),), policy=policy))


def fetches_of(through: Through) -> list[Any]:
    return [ask.body for ask in through.asked if ask.api is ApiKey.Fetch]


def test_a_committed_fetch_ends_at_the_last_stable_offset(broker: Broker) -> None:
    """There the cluster has nothing more for it, though the high watermark is further on."""
    undecided = batch(1, 2, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    append(broker, batch(0), undecided)
    append(broker, batch(0), partition=1)
    through = committed_through(broker)
    first, second = fetch(through, 1, 1, 0)
    assert (records_of(first), first.high_watermark) == ([], 3)
    assert [record.offset for record in records_of(second)] == [0]
    (asked,) = fetches_of(through)
    assert asked.isolation_level == 1
    (part,) = fetch(through, 1, 0)
    assert [record.offset for record in records_of(part)] == [0]


def test_only_the_first_of_several_requests_for_a_fetch_waits(
    broker: Broker, through: Through
) -> None:
    """The others ask for what follows, which is there or is left to the next fetch."""
    for offset in range(0, 8, 2):
        append(broker, batch(offset, codec=Codec.GZIP))
        broker.topics.partition("t", 0).log.writer.roll()  # type: ignore[union-attr]
    (part,) = fetch(through, 1, 0, wait=700)
    assert [record.offset for record in records_of(part)] == [0, 2, 4, 6]
    asked = fetches_of(through)
    assert [(body.max_wait_ms, body.min_bytes) for body in asked] == [(700, 1)] + [(0, 0)] * 3


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(
    ("segments", "noise_size", "policy"),
    [
        (6, 10, ConversionPolicy(recode={"lz4": "none"})),  # the cluster is asked for each
        (1, 4_000, ConversionPolicy(recode={"lz4": "none"}, trim_compressed=False)),  # two turns
    ],
)
def test_a_hard_limit_holds_for_all_parts_of_a_response_together(
    broker: Broker, version: int, segments: int, noise_size: int, policy: ConversionPolicy
) -> None:
    """Records that become larger: a limit for each of the parts would let more of them through."""
    through = Through(broker, GatewayConfig(bootstrap=(Address("c", 1),), policy=policy))
    dice = Random(1)
    for start in range(0, 120, 20):
        values = [dice.randbytes(noise_size).ljust(6_000) for _ in range(20)]
        records = [Record(start + n, 1, value=value) for n, value in enumerate(values)]
        append(broker, build(records, magic=2, codec=Codec.LZ4))
        if segments > 1:
            broker.topics.partition("t", 0).log.writer.roll()  # type: ignore[union-attr]
    (whole,) = fetch(through, version, 0, max_bytes=1 << 24)
    assert len(records_of(whole)) == 120
    size = len(whole.records) // 120
    for limit in (100_000, 40 * size + 100, 60 * size + 100, 400_000, 600_000):
        (part,) = fetch(through, version, 0, max_bytes=limit)
        assert limit - 6_100 < len(part.records) <= limit
        assert bytes(whole.records).startswith(bytes(part.records))
