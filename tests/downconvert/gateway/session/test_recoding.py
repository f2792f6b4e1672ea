"""Fetch v4-v9 through the gateway: clients that read v2, and came before zstd did."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from downconvert import ConversionPolicy
from downconvert.broker import Broker, ErrorCode
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.session import recoding, turns
from downconvert.gateway.session.exchanges import Ask, Response
from downconvert.gateway.topology import Address
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.conversions import RecodeRule
from records import Codec, ControlRecordType, MemoryRecords, build_empty, build_marker
from records.formats import MAGIC_AT
from simulator.collector import Collector
from tests.damage import flipped
from tests.downconvert.broker.asking import frame, parsed
from tests.downconvert.gateway.cluster import Through, append
from tests.downconvert.gateway.talk import fetch, fetch_body, records_of
from tests.downconvert.storage.logs import batch

BEFORE_ZSTD = range(4, 10)
CONFIG = GatewayConfig(bootstrap=(Address("cluster", 9092),))
REFUSING = replace(CONFIG, policy=ConversionPolicy(recode={"zstd": "refuse"}))
LARGE = 200_000  # bytes: a response that goes through a file


def codecs(part: Message) -> list[Codec]:
    return [header.codec for header in MemoryRecords(part.records).batches()]


def with_rules(broker: Broker, *rules: RecodeRule) -> Through:
    return Through(broker, replace(CONFIG, recode_rules=rules))


@pytest.mark.parametrize(
    ("served", "serves", "newest"),
    [
        (range(12), True, 11),
        (range(4, 11), True, 10),  # the first version with zstd
        (range(10), False, None),
        (range(18), True, 12),  # the last one with names of topics
        (range(13, 18), False, None),
    ],
)
def test_the_cluster_is_asked_in_the_newest_version_with_zstd_and_names(
    served: range, serves: bool, newest: int | None
) -> None:
    assert [recoding.can_serve(version, served) for version in (3, 4, 9, 10)] == [
        False,
        serves,
        serves,
        False,
    ]
    if newest is not None:
        asked = next(recoding.fetch(fetch_body(0), 6, served, lambda _: ConversionPolicy()))
        assert isinstance(asked, Ask)
        assert (asked.api, asked.version) == (ApiKey.Fetch, newest)


@pytest.mark.parametrize("version", BEFORE_ZSTD)
@pytest.mark.parametrize("size", [10, LARGE])
def test_zstd_becomes_gzip_and_other_codecs_stay(
    broker: Broker, through: Through, version: int, size: int
) -> None:
    ordered = sorted(Codec, key=lambda codec: codec is Codec.ZSTD)
    append(
        broker,
        *(batch(2 * n, 2 * n + 1, codec=codec, size=size) for n, codec in enumerate(ordered)),
    )
    log = fetch(through, 12, 0, max_bytes=1 << 24)[0]
    (part,) = fetch(through, version, 0, max_bytes=1 << 24)
    assert codecs(log)[-1] is Codec.ZSTD
    assert codecs(part)[:-1] == codecs(log)[:-1]
    assert codecs(part)[-1] is Codec.GZIP
    assert records_of(part) == records_of(log)
    untouched = list(MemoryRecords(log.records).batches())[-1].position
    assert bytes(part.records[:untouched]) == bytes(log.records[:untouched])


@pytest.mark.parametrize("version", BEFORE_ZSTD)
def test_responses_without_zstd_are_forwarded_byte_for_byte(
    broker: Broker, through: Through, version: int
) -> None:
    append(broker, batch(0, 1, codec=Codec.LZ4), batch(2, size=LARGE))
    log, part = (fetch(through, one, 0)[0] for one in (12, version))
    assert bytes(part.records) == bytes(log.records)
    assert (part.high_watermark, part.last_stable_offset) == (3, 3)


@pytest.mark.parametrize("version", BEFORE_ZSTD)
def test_transactions_that_were_aborted_are_still_named(
    broker: Broker, through: Through, version: int
) -> None:
    transactional = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    append(broker, batch(0, codec=Codec.ZSTD, producer_id=7, **transactional))
    append(
        broker,
        build_marker(
            ControlRecordType.ABORT, producer_id=7, producer_epoch=0, offset=1, timestamp=1
        ),
        batch(2, codec=Codec.ZSTD, producer_id=8, **transactional),
    )
    body = fetch_body(0)
    body.isolation_level = 1
    (part,) = through.ask(ApiKey.Fetch, version, body).responses[0].partitions
    (aborted,) = part.aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (7, 0)
    assert (part.last_stable_offset, part.high_watermark) == (2, 3)
    assert [record.offset for record in records_of(part)] == [0]
    assert codecs(part) == [Codec.GZIP, Codec.NONE]


def asked_of(through: Through) -> Sequence[Ask]:
    return [ask for ask in through.asked if ask.api is ApiKey.Fetch]


@pytest.mark.parametrize("version", range(7, 10))
def test_no_fetch_session_is_created_and_none_is_known(
    broker: Broker, through: Through, version: int
) -> None:
    append(broker, batch(0))
    for session_id, epoch in ((0, 0), (0, -1), (5, -1)):
        body = Message(**fetch_body(0).__dict__, session_id=session_id, session_epoch=epoch)
        response = through.ask(ApiKey.Fetch, version, body)
        assert (response.error_code, response.session_id) == (ErrorCode.NONE, 0)
        assert len(response.responses[0].partitions) == 1
    body = Message(**fetch_body(0).__dict__, session_id=5, session_epoch=3)
    response = through.ask(ApiKey.Fetch, version, body)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(asked_of(through)) == 3


@pytest.mark.parametrize("version", BEFORE_ZSTD)
def test_a_gateway_that_refuses_zstd_leaves_it_to_the_cluster(broker: Broker, version: int) -> None:
    through = Through(broker, REFUSING)
    assert through.passes(frame(ApiKey.Fetch, version, fetch_body(0)))


def test_only_the_topics_that_a_rule_names_are_refused(broker: Broker) -> None:
    append(broker, batch(0, codec=Codec.ZSTD))
    (part,) = fetch(with_rules(broker, RecodeRule({"zstd": "refuse"}, topic="t")), 9, 0)
    assert part.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert bytes(part.records) == b""
    (part,) = fetch(with_rules(broker, RecodeRule({"zstd": "refuse"}, topic="u")), 9, 0)
    assert codecs(part) == [Codec.GZIP]


@pytest.mark.parametrize("version", [0, 2, 4, 9])
def test_a_rule_decides_for_the_clients_that_it_names(broker: Broker, version: int) -> None:
    append(broker, batch(0, 1, codec=Codec.ZSTD))
    rule = RecodeRule({"zstd": "none"}, client="te*")
    assert codecs(fetch(with_rules(broker, rule), version, 0)[0])[0] is Codec.NONE
    other = replace(rule, client="other")
    assert codecs(fetch(with_rules(broker, other), version, 0)[0]) == [Codec.GZIP]


def test_a_rule_knows_clients_by_their_software(broker: Broker) -> None:
    append(broker, batch(0, codec=Codec.ZSTD))
    through = with_rules(broker, RecodeRule({"zstd": "none"}, client="librdkafka/1.*"))
    body = Message(client_software_name="librdkafka", client_software_version="1.4.0")
    through.ask(ApiKey.ApiVersions, 3, body)
    assert codecs(fetch(through, 9, 0)[0]) == [Codec.NONE]


@pytest.mark.parametrize("version", [0, 2])
def test_kafka_node_gets_nothing_compressed(broker: Broker, version: int) -> None:
    append(broker, batch(0, 1, codec=Codec.GZIP))
    through = Through(broker)
    request = frame(ApiKey.Fetch, version, fetch_body(0), "kafka-node-client")
    reply = through.reply(request)
    assert isinstance(reply, Response)
    collector = Collector()
    while not reply.send.completed:
        reply.send.write_to(collector)
    assert collector.data.count(b"\x1f\x8b") == 0


def test_a_client_that_got_another_codec_counts_as_old(broker: Broker, through: Through) -> None:
    append(broker, batch(0, codec=Codec.LZ4))
    fetch(through, 9, 0)
    append(broker, batch(1, codec=Codec.ZSTD))
    fetch(through, 9, 0)
    (row,) = (row for row in through.shared.census.rows() if row["version"] == 9)
    assert (row["requests"], row["translated"]) == (2, 1)
    assert row["bytes_converted"] > 0


def answering(broker: Broker, responses: dict[int, bytes], offsets: list[int]) -> Through:
    """A cluster that answers with these records to a fetch of their offset, and notes each offset.

    Real ones end with a segment, and begin with the offset that was asked for."""

    def tamper(ask: Ask, response: bytes) -> bytes:
        if ask.api is not ApiKey.Fetch or ask.body is None:
            return response
        offset = ask.body.topics[0].partitions[0].fetch_offset
        offsets.append(offset)
        answer = parsed(ApiKey.Fetch, ask.version, response)
        if offset in responses:
            answer.responses[0].partitions[0].records = responses[offset]
        header = encode("ResponseHeader", int(ask.version >= 12), Message(correlation_id=7))
        return bytes(4) + header + encode("FetchResponse", ask.version, answer)

    return Through(broker, tamper=tamper)


@pytest.mark.parametrize("version", BEFORE_ZSTD)
def test_no_client_is_stuck_at_batches_that_compaction_emptied(
    broker: Broker, version: int
) -> None:
    emptied = [
        build_empty(base_offset=offset, last_offset=offset, producer_id=1) for offset in range(3)
    ]

    offsets: list[int] = []
    append(broker, *emptied, batch(3, codec=Codec.ZSTD))
    through = answering(broker, dict(enumerate(emptied)), offsets)
    (part,) = fetch(through, version, 0)
    assert [record.offset for record in records_of(part)] == [3]
    assert offsets == [0, 1, 2, 3]


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.NONE])
def test_batches_before_a_damaged_header_are_sent(broker: Broker, codec: Codec) -> None:
    good, bad = batch(0, codec=codec), flipped(batch(1), 8 * MAGIC_AT)
    append(broker, good)
    (part,) = fetch(answering(broker, {0: good + bad}, []), 9, 0)
    assert part.error_code == ErrorCode.NONE
    assert [record.offset for record in records_of(part)] == [0]
    assert len(codecs(part)) == 1


@pytest.mark.parametrize("batches_a_turn", [1, 2, 9])
def test_nothing_after_a_damaged_batch_is_sent(
    broker: Broker, batches_a_turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds in each turn of the conversion: a gap would look like missing records."""
    first, second, third, fourth = (batch(n, codec=Codec.ZSTD, size=500) for n in range(4))
    monkeypatch.setattr(turns, "TURN_SIZE", batches_a_turn * len(first))
    append(broker, first)
    records = first + flipped(second, 8 * (len(second) - 20)) + third + fourth
    (part,) = fetch(answering(broker, {0: records}, []), 9, 0)
    assert part.error_code == ErrorCode.NONE
    assert [record.offset for record in records_of(part)] == [0]
    assert codecs(part) == [Codec.GZIP]
