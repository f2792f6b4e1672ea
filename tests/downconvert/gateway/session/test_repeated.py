"""Old fetches that are answered from bytes to bytes.

The oracle is the exchange, which answers the first fetch of each connection: what is sent again is
answered with the same bytes, and counted likewise; and whatever the cluster's response is, either
the exchange makes the same of it, or it is left to the exchange."""

from collections import Counter
from pathlib import Path
from random import Random
from struct import Struct
from typing import Any

import pytest

from downconvert import ConversionPolicy
from downconvert.access.rights import Access
from downconvert.gateway.network.upstream import framed
from downconvert.gateway.session import fetching, repeated
from downconvert.gateway.session.exchanges import Ask, Turn
from downconvert.gateway.session.headers import parse
from downconvert.gateway.session.spool import Spool
from downconvert.gateway.session.waiting import LONGEST
from downconvert.protocol.encoder import encode
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.requests import RequestHeader
from downconvert.protocol.responses import response
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, Record, RecordsError, build
from tests.downconvert.broker.asking import frame
from tests.downconvert.gateway.serving import LENGTH, Wire, cluster, gateway
from tests.downconvert.gateway.talk import fetch_body, message_set, produce_body, records_of
from tests.waiting import wait_for

SEED = 11_031
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
VERSIONS = [0, 1, 2, 3]
SERVED = range(4, 13)
CORRELATION = Struct(">i")
ASKED_ID, CORRELATION_ID = 77, 5
USER = repeated.User(None, "c", "p")  # type: ignore[arg-type]  # nothing is counted
REFUSING = ConversionPolicy(recode={"zstd": "refuse"})
COMMITTED = ConversionPolicy(isolation="read_committed")


def of_offset(request: bytes, offset: int) -> bytes:
    return request[:-12] + offset.to_bytes(8, signed=True) + request[-4:]


def answered(client: Wire, request: bytes) -> bytes:
    client.socket.sendall(LENGTH.pack(len(request)) + request)
    return client.receive()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_second_fetch_is_answered_as_the_first_of_a_connection(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Counter[bool]()
    made = repeated.RepeatedFetch.response

    def counting(*arguments: Any) -> repeated.Answered | None:
        found = made(*arguments)
        sent[found is not None] += 1
        return found

    monkeypatch.setattr(repeated.RepeatedFetch, "response", counting)
    path = tmp_path / "log"
    path.mkdir()
    with cluster(path, "t") as (_, port), gateway(port) as one, gateway(port) as other:
        with Wire(one.address) as client:
            for number, codec in enumerate(CODECS):
                for size in (10, 900):
                    values = [bytes([65 + number]) * size] * 30
                    client.ask(
                        ApiKey.Produce, 7, produce_body(message_set(2, *values, codec=codec))
                    )
        for limit in (200, 5000, 40_000):
            body = fetch_body(0, max_bytes=limit)
            request = frame(ApiKey.Fetch, version, body)
            with Wire(one.address) as client:
                for _ in range(2):
                    answered(client, request)
                for offset in (*range(0, 310, 7), 299, 300, 301, -1):
                    again = answered(client, of_offset(request, offset))
                    with Wire(other.address) as fresh:
                        first = answered(fresh, of_offset(request, offset))
                    assert again == first, (limit, offset)
            with Wire(other.address) as fresh:
                for _ in range(2):
                    answered(fresh, request)
        assert sent[True] > 50
        wait_for(lambda: not one.places and not other.places)
        assert counted(one) == counted(other)
        (row,), (alike,) = one.shared.last_old.rows(), other.shared.last_old.rows()
        assert row[:2] == alike[:2] == ("t", "")


@pytest.mark.parametrize("version", VERSIONS)
def test_fetches_that_differ_in_more_than_their_offset_are_not_confused(
    tmp_path: Path, version: int
) -> None:
    """A client of 0.8 asks for more at the same offset if a message was larger than its limit."""
    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(port) as running,
        Wire(running.address) as client,
    ):
        for value in (b"a", b"b", b"c"):
            client.ask(ApiKey.Produce, 7, produce_body(message_set(2, value * 1_000)))
        for limit, count in ((1_100, 1), (2_300, 2), (5_000, 3), (1_100, 1), (2_300, 2)):
            for _ in range(2):
                answer = client.ask(ApiKey.Fetch, version, fetch_body(0, max_bytes=limit))
                (part,) = answer.responses[0].partitions
                assert len(records_of(part)) == count, limit


def counted(running: Any) -> list[tuple[int, ...]]:
    """The requests are fetches."""
    names = ("requests", "translated", "records_converted", "bytes_converted")
    rows = [row for row in running.census.rows() if row["api"] == "Fetch"]
    return [tuple(row[name] for name in names) for row in rows]


def test_a_login_of_another_or_another_version_forgets_it(tmp_path: Path) -> None:
    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(port) as running,
        Wire(running.address) as client,
    ):
        for _ in range(3):
            client.ask(ApiKey.Fetch, 2, fetch_body(0))
        (connection,) = running.connections
        assert len(connection.session.repeated) == 1
        client.ask(ApiKey.ApiVersions, 3, Message(client_software_name="a"))
        assert not connection.session.repeated
        for limit in range(1, 20):  # few are kept
            for _ in range(2):
                client.ask(ApiKey.Fetch, 2, fetch_body(0, max_bytes=limit))
        assert 1 <= len(connection.session.repeated) <= repeated.REPEATED_MAX


# --- responses of a cluster


def learned(
    version: int, policy: ConversionPolicy, limit: int, wait: int = 0
) -> tuple[Any, Message]:
    body = fetch_body(3, max_bytes=limit, wait=wait)
    request = frame(ApiKey.Fetch, version, body)
    whole = memoryview(LENGTH.pack(len(request)) + request)
    asked = next(exchange(version, policy, body))
    assert isinstance(asked, Ask)
    known = repeated.RepeatedFetches()
    known.remember(whole, parse(whole[4:]), asked, framed, lambda _: policy, USER)
    found = known[repeated.key_of(whole)]
    assert found.ask(9, 3) == framed(asked, 9)
    return found, body


@pytest.mark.parametrize(("wait", "seconds"), [(-1, 0), (7000, 7), ((1 << 31) - 1, LONGEST)])
def test_a_cluster_has_as_long_as_the_client_says_and_not_for_ever(
    wait: int, seconds: float
) -> None:
    known, _ = learned(3, ConversionPolicy(), 1000, wait)
    assert known.wait == seconds


def exchange(version: int, policy: ConversionPolicy, body: Message) -> Any:
    return fetching.fetch(body, version, SERVED, lambda _: policy)


def by_exchange(version: int, policy: ConversionPolicy, body: Message, data: bytes) -> bytes | None:
    """None: it has none yet, or fails."""
    steps = exchange(version, policy, body)
    asked = next(steps)
    spool = Spool(len(data) - 4)
    spool.write(memoryview(data)[4:])
    try:
        step = steps.send(asked.response(spool, ASKED_ID))
        while isinstance(step, Turn):
            step = next(steps)
    except StopIteration as end:
        header = RequestHeader(ApiKey.Fetch, version, CORRELATION_ID, "c", 0)
        send, out = response(header, end.value), bytearray()

        class Channel:
            def send(self, piece: memoryview) -> int:
                out.extend(piece)
                return len(piece)

        while not send.completed:
            send.write_to(Channel())
        return bytes(out)
    except (BadRequestError, RecordsError):
        return None
    return None


def of_cluster(records: bytes, **fields: Any) -> bytes:
    partition = Message(
        **{
            "partition_index": 0,
            "high_watermark": 20,
            "last_stable_offset": 20,
            "log_start_offset": 0,
            "aborted_transactions": None,
            "preferred_read_replica": -1,
            "records": records,
        }
        | fields
    )
    topic = Message(topic="t", partitions=[partition])
    body = Message(throttle_time_ms=0, error_code=0, session_id=0, responses=[topic])
    data = encode("ResponseHeader", 1, Message(correlation_id=ASKED_ID))
    data += encode("FetchResponse", 12, body)
    return LENGTH.pack(len(data)) + data


def batch(codec: Codec = Codec.NONE, first: int = 0, **options: Any) -> bytes:
    found = [
        Record(offset=first + n, timestamp=n, key=b"k", value=bytes([n]) * 9) for n in range(8)
    ]
    return build(found, magic=2, codec=codec, **options)


def same(version: int, policy: ConversionPolicy, data: bytes, limit: int = 1000) -> bool:
    """Whether it was answered, and then as the exchange does."""
    known, body = learned(version, policy, limit)
    found = known.response(memoryview(data), ASKED_ID, CORRELATION_ID, 3, 1 << 16)
    if found is not None:
        assert bytes(found.frame) == by_exchange(version, policy, body, data)
    return found is not None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("codec", CODECS)
def test_one_batch_becomes_what_the_exchange_makes_of_it(version: int, codec: Codec) -> None:
    for policy in (COMMITTED, REFUSING):
        for limit in (1, 100, 1000):
            data = of_cluster(batch(codec), high_watermark=8, last_stable_offset=8)
            is_refused = codec is Codec.ZSTD and policy is REFUSING
            assert same(version, policy, data, limit) is not is_refused


@pytest.mark.parametrize(
    "data",
    [
        of_cluster(batch(), error_code=1),
        of_cluster(batch(), partition_index=1),
        of_cluster(batch(), aborted_transactions=[Message(producer_id=1, first_offset=0)]),
        of_cluster(batch()),  # little, so that more is asked for
        of_cluster(batch() + batch(first=8)),
        of_cluster(batch()[:-1]),
        of_cluster(batch()[:30]),
        of_cluster(build([Record(offset=5, timestamp=0, value=b"v")], magic=1)),
        of_cluster(build([Record(offset=1, timestamp=0, value=b"v")], magic=2)),  # below the offset
    ],
)
def test_unusual_requests_are_left_to_the_exchange(data: bytes) -> None:
    assert not same(2, COMMITTED, data)


@pytest.mark.parametrize("version", VERSIONS)
def test_batches_that_are_not_compressed_are_converted_together(version: int) -> None:
    two = batch() + batch(first=8)
    for high, limit in ((16, 1000), (16, 200), (20, len(two))):
        assert same(version, COMMITTED, of_cluster(two, high_watermark=high), limit)
    lz4 = batch(Codec.LZ4, first=8)
    for other in (batch() + lz4, lz4 + batch(), two[:-1], two + batch(control=True)):
        assert not same(version, COMMITTED, of_cluster(other, high_watermark=16))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_batch_that_the_clusters_limit_cuts_is_left_out(version: int, codec: Codec) -> None:
    one, following = batch(codec), batch(codec, first=8)
    for size in range(len(following)):
        data = of_cluster(one + following[:size])
        assert same(version, COMMITTED, data, limit=len(one) + size)
        assert not same(version, COMMITTED, data, limit=len(one) + size + 1)  # more is asked for


@pytest.mark.parametrize("records", [b"", None])
def test_a_response_without_records_is_that_of_the_exchange(records: bytes | None) -> None:
    assert same(1, COMMITTED, of_cluster(records))  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [0, 3])
def test_damaged_responses_are_left_to_the_exchange_or_answered_alike(version: int) -> None:
    random = Random(SEED + version)
    records = batch(Codec.LZ4) if version else batch() + batch(first=8)
    whole = of_cluster(records, high_watermark=8 if version else 16)
    for at in range(4, len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1 << random.randrange(8)
        same(version, COMMITTED, bytes(changed))
        same(version, COMMITTED, LENGTH.pack(at - 4) + whole[4:at])


@pytest.mark.parametrize(
    "access", [Access(topics=("t",)), Access(consumer_byte_rate=1e9), Access()]
)
def test_fetches_whose_topics_or_rates_are_checked_are_never_repeated(
    tmp_path: Path, access: Access
) -> None:
    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(port, access=access) as running,
        Wire(running.address) as client,
    ):
        for _ in range(3):
            (part,) = client.ask(ApiKey.Fetch, 2, fetch_body(0)).responses[0].partitions
            assert part.error_code == 0
        (connection,) = running.connections
        assert bool(connection.session.repeated) == (access == Access())
