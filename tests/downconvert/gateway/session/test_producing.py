import pytest

from downconvert.broker import Broker, ErrorCode
from downconvert.gateway.session import producing
from downconvert.gateway.session.exchanges import HangUp, Nothing
from downconvert.gateway.session.headers import parse
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, read
from tests.downconvert.broker.asking import frame
from tests.downconvert.gateway.cluster import Through
from tests.downconvert.gateway.talk import START, message_set, produce, produce_body


def stored(broker: Broker) -> list[tuple[bytes | None, bytes | None, int]]:
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    log = partition.log
    found = log.read(0, 1 << 20) if log.end_offset else None
    return [] if found is None else [(r.key, r.value, r.timestamp) for r in read(found)]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_old_message_sets_are_kept_as_they_were_meant(
    broker: Broker, through: Through, version: int, codec: Codec
) -> None:
    magic = int(version == 2)
    response = produce(through, version, message_set(magic, b"a", b"b", codec=codec))
    assert (response.error_code, response.base_offset) == (ErrorCode.NONE, 0)
    first = START if magic else -1
    assert stored(broker) == [(b"k", b"a", first), (b"k", b"b", START + 1 if magic else -1)]


def test_a_produce_with_acks_all_waits_for_the_cluster(through: Through) -> None:
    assert produce(through, 0, message_set(0, b"a"), acks=-1).error_code == ErrorCode.NONE
    (asked,) = (ask for ask in through.asked if ask.api is ApiKey.Produce)
    assert asked.body is not None
    assert asked.body.acks == -1


def test_a_produce_without_acks_has_no_response(broker: Broker, through: Through) -> None:
    reply = through.reply(frame(ApiKey.Produce, 0, produce_body(message_set(0, b"a"), acks=0)))
    assert reply == Nothing()
    assert [value for _, value, _ in stored(broker)] == [b"a"]


def test_a_refused_produce_without_acks_ends_the_connection(through: Through) -> None:
    broken = bytearray(message_set(0, b"a"))
    broken[20] ^= 1
    reply = through.reply(frame(ApiKey.Produce, 0, produce_body(bytes(broken), acks=0)))
    assert isinstance(reply, HangUp)


def test_damage_is_reported_before_the_cluster_is_asked(through: Through) -> None:
    broken = bytearray(message_set(1, b"a"))
    broken[-1] ^= 1
    assert produce(through, 2, bytes(broken)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert [ask.api for ask in through.asked] == [ApiKey.ApiVersions]


def test_error_codes_that_are_too_new_for_a_client_are_replaced(through: Through) -> None:
    unknown = produce(through, 0, message_set(0, b"a"), partition=9)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    v2 = produce(through, 2, message_set(2, b"a") + message_set(2, b"b"))
    assert v2.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("records", [None, b"", b"\0" * 11])
def test_a_produce_without_records_appends_nothing(
    broker: Broker, through: Through, records: bytes | None
) -> None:
    assert produce(through, 1, records).error_code == ErrorCode.NONE
    assert stored(broker) == []


@pytest.mark.parametrize("version", [0, 2, 3, 8, 9, 12])
@pytest.mark.parametrize("acks", [-1, 0, 1])
@pytest.mark.parametrize("transactional_id", [None, "", "tx" * 50])
def test_acks_are_found_in_every_version(
    version: int, acks: int, transactional_id: str | None
) -> None:
    body = Message(acks=acks, timeout_ms=7, transactional_id=transactional_id, topic_data=[])
    whole = memoryview(frame(ApiKey.Produce, version, body))
    assert producing.acks(whole, parse(whole).size, version) == acks


def test_half_a_request_has_no_acks() -> None:
    with pytest.raises(BadRequestError):
        producing.acks(memoryview(b"\0"), 0, 2)


@pytest.mark.parametrize("broken_first", [False, True])
def test_a_produce_without_acks_refused_in_part_ends_the_connection_and_the_rest_is_written(
    broker: Broker, through: Through, broken_first: bool
) -> None:
    """The end of the connection is all that such a producer hears of an error."""
    broken = bytearray(message_set(0, b"broken"))
    broken[20] ^= 1
    sets = [message_set(0, b"whole"), bytes(broken)]
    partitions = [Message(index=0, records=sets[broken_first])]
    partitions += [Message(index=1, records=sets[not broken_first])]
    body = produce_body(None, acks=0)
    body.topic_data[0].partition_data = partitions
    reply = through.reply(frame(ApiKey.Produce, 0, body))
    assert isinstance(reply, HangUp)
    written = broker.topics.partition("t", int(broken_first))
    assert written is not None
    assert [record.value for record in written.log.records()] == [b"whole"]
