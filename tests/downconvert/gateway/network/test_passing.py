"""Requests that pass without being looked at: all but their cost is as of those that are.

The oracle is a client that connects for each request: the first of a connection is looked at."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from struct import Struct
from time import sleep
from typing import Any

import pytest

from downconvert.broker import Broker
from downconvert.gateway.config import Limits
from downconvert.gateway.figures import End
from downconvert.gateway.server import Gateway
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec
from tests.certificates import self_signed
from tests.downconvert.broker.asking import frame
from tests.downconvert.gateway.hanging import Hanging
from tests.downconvert.gateway.serving import LENGTH, Wire, cluster, gateway
from tests.downconvert.gateway.talk import fetch_body, message_set, produce_body
from tests.waiting import wait_for

SEED = 20_260
ROUNDS = [(SEED, 40, False), (SEED + 1, 40, False), (SEED + 2, 20, True)]  # requests, and TLS
CORRELATION = Struct(">i")
CORRELATION_AT = 4  # in a frame without its length
SIZES = (10, 3000, 20_000, 90_000, 300_000)  # of records: held back, sent in pieces, spliced
PAUSE = 0.3  # seconds; a broker answers with tens of megabytes in them
GROUP = Message(group_id="g", generation_id=1, member_id="m", topics=[])
TIMES = Message(replica_id=-1, topics=[Message(name="t", partitions=[Message(timestamp=-1)])])
ALL = Message(topics=None)


@contextmanager
def served(path: Path, **options: Any) -> Iterator[tuple[Broker, Gateway]]:
    path.mkdir()
    with cluster(path, "t", "u") as (broker, port), gateway(port, **options) as running:
        yield broker, running


def produced(topic: str, version: int, value: bytes, acks: int) -> bytes:
    body = produce_body(message_set(0 if version < 3 else 2, value), acks)
    body.topic_data[0].name = topic
    return frame(ApiKey.Produce, version, body)


def conversation(random: Random, count: int) -> list[bytes]:
    """Requests of a few kinds, without their lengths; no response depends on the time."""
    requests = [produced("t", 3, random.randbytes(size), 1) for size in SIZES]
    for codec in (Codec.GZIP, Codec.LZ4):
        body = produce_body(message_set(2, *[b"value"] * 500, codec=codec))
        requests.append(frame(ApiKey.Produce, 3, body))
    name = random.choice(["test", "", "x" * 300])
    for _ in range(count):
        offset = random.choice([*range(len(SIZES)), 9, 400, 700, 5000])
        replica = random.choice([-1] * 9 + [1])
        limit = random.choice([100, 5000, 1 << 20])
        fetch = fetch_body(offset, max_bytes=limit)
        fetch.replica_id = replica
        fetch.session_epoch = -1
        times = Message(**{**vars(TIMES), "replica_id": replica})
        requests.append(
            random.choice(
                [
                    *[frame(ApiKey.Fetch, random.choice([11, 12]), fetch, name)] * 8,
                    *[frame(ApiKey.Fetch, random.choice([0, 1, 2, 3]), fetch, name)] * 4,
                    frame(ApiKey.Fetch, random.choice([4, 7]), fetch, name),
                    frame(ApiKey.Heartbeat, random.choice([0, 3, 4]), GROUP, name),
                    frame(ApiKey.OffsetFetch, random.choice([0, 1, 6]), GROUP, "other"),
                    frame(ApiKey.ListOffsets, random.choice([1, 4, 6]), times, name),
                    frame(ApiKey.Metadata, random.choice([1, 9]), ALL, name),
                    produced("u", random.choice([0, 3, 9]), b"value", random.choice([0, 1, -1])),
                ]
            )
        )
    return [numbered(request, number) for number, request in enumerate(requests)]


def numbered(request: bytes, correlation_id: int) -> bytes:
    start = request[:CORRELATION_AT] + CORRELATION.pack(correlation_id)
    return start + request[len(start) :]


def has_response(request: bytes) -> bool:
    """Produces with acks 0 have no response: `u` is written to with a timeout of 1000 after it."""
    if int.from_bytes(request[:2]) != ApiKey.Produce:
        return True
    return b"\0\0" + (1000).to_bytes(4) not in request


def connected(running: Gateway, certificate: str | None) -> Wire:
    wire = Wire(running.address)
    if certificate is not None:
        wire.start_tls(certificate)
    return wire


def one_by_one(running: Gateway, requests: list[bytes], certificate: str | None) -> list[bytes]:
    """The responses, each on a connection of its own."""
    responses = []
    for request in requests:
        with connected(running, certificate) as client:
            client.socket.sendall(LENGTH.pack(len(request)) + request)
            if has_response(request):
                responses.append(client.receive())
            else:  # until it is answered, what is before it has been handled
                after = frame(ApiKey.Heartbeat, 0, GROUP)
                client.socket.sendall(LENGTH.pack(len(after)) + after)
                client.receive()
    return responses


def together(
    running: Gateway, requests: list[bytes], certificate: str | None, random: Random
) -> list[bytes]:
    """The responses on one connection, whose requests come several at a time, and in pieces."""
    responses, left = [], list(requests)
    with connected(running, certificate) as client:
        while left:
            count = random.choice([1, 1, 2, 5, 50])
            now, left = left[:count], left[count:]
            data = b"".join(LENGTH.pack(len(one)) + one for one in now)
            while data:
                size = random.choice([1, 20, 100, len(data), len(data)])
                client.socket.sendall(data[:size])
                data = data[size:]
            responses += [client.receive() for one in now if has_response(one)]
    return responses


@pytest.mark.parametrize(("seed", "count", "has_tls"), ROUNDS)
def test_the_same_requests_have_the_same_responses_and_counts(
    tmp_path: Path, seed: int, count: int, has_tls: bool
) -> None:
    random = Random(seed)
    requests = conversation(random, count)
    with ExitStack() as stack:
        options: dict[str, Any] = {}
        if has_tls:
            certificate, key = self_signed(tmp_path)
            options = {"tls_cert": certificate, "tls_key": key}
        _, first = stack.enter_context(served(tmp_path / "a", **options))
        _, second = stack.enter_context(served(tmp_path / "b", **options))
        trusted = options.get("tls_cert")
        wanted = one_by_one(first, requests, trusted)
        got = together(second, requests, trusted, random)
        # A broker's name in Metadata is the gateway's, whose ports differ.
        is_same = [
            b"127.0.0.1" in one or one == other for one, other in zip(wanted, got, strict=True)
        ]
        assert all(is_same), f"seed {seed}: response {is_same.index(False)}"

        extra = sum(not has_response(request) for request in requests)
        expected = counts(first)
        expected["Heartbeat", 0] -= extra
        wait_for(lambda: not second.places)  # what was sent last has been handled
        assert +expected == +counts(second)


def counts(running: Gateway) -> Counter[tuple[str, int]]:
    """Requests by API and version."""
    known = Counter[tuple[str, int]]()
    for row in running.census.rows():
        known[row["api"], row["version"]] += row["requests"]
    return known


def passed_by_itself(running: Gateway) -> int:
    return sum(one.passing.requests for one in running.connections)


@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_request_of_a_known_kind_is_not_looked_at(tmp_path: Path, version: int) -> None:
    with served(tmp_path / "a") as (_, running), Wire(running.address) as client:
        for _ in range(5):
            client.ask(ApiKey.Fetch, version, fetch_body(0))
        expected = 4 if version > 9 else 0  # the others may be sent zstd, which they cannot read
        assert passed_by_itself(running) == expected


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_small_old_fetch_is_translated_as_it_comes(tmp_path: Path, version: int) -> None:
    with served(tmp_path / "a") as (_, running), Wire(running.address) as client:
        for _ in range(5):
            client.ask(ApiKey.Fetch, version, fetch_body(0))
        assert passed_by_itself(running) == 4  # for the first one, the cluster is connected to


def test_a_client_that_claims_to_be_a_broker_is_refused_later_too(tmp_path: Path) -> None:
    with served(tmp_path / "a") as (_, running), Wire(running.address) as client:
        for replica_id, code in ((-1, 0), (-1, 0), (3, 31)):
            body = fetch_body(0)
            body.replica_id = replica_id
            response = client.ask(ApiKey.Fetch, 11, body)
            assert response.error_code or response.responses[0].partitions[0].error_code == code


@pytest.mark.parametrize("answered", [0, 4, 10])
@pytest.mark.parametrize("version", [2, 12])
def test_a_broker_that_falls_silent_is_given_up(
    tmp_path: Path, answered: int, version: int
) -> None:
    limits = Limits(request_timeout=2.0)
    with (
        cluster(tmp_path, "t") as (_, port),
        Hanging(port) as between,
        gateway(between.port, limits=limits) as running,
        Wire(running.address) as client,
    ):
        for _ in range(2):
            client.ask(ApiKey.Fetch, version, fetch_body(0))
        assert passed_by_itself(running) == 1
        between.answered = answered
        client.send(ApiKey.Fetch, version, fetch_body(0))
        assert client.has_ended()
        wait_for(lambda: running.figures().ends[End.CLUSTER] == 1)


def test_a_client_that_sends_no_more_requests_is_disconnected(tmp_path: Path) -> None:
    limits = Limits(request_timeout=1.0, idle_timeout=2.0)
    with served(tmp_path / "a", limits=limits) as (_, running), Wire(running.address) as client:
        for _ in range(3):
            client.ask(ApiKey.Heartbeat, 3, GROUP)
        assert passed_by_itself(running) == 2
        assert client.has_ended()
        wait_for(lambda: running.figures().ends[End.TIMEOUT] == 1)


def test_a_fetch_may_wait_for_longer_than_a_request(tmp_path: Path) -> None:
    limits = Limits(request_timeout=2.0)
    with served(tmp_path / "a", limits=limits) as (_, running), Wire(running.address) as client:
        client.ask(ApiKey.Fetch, 12, fetch_body(0))
        client.ask(ApiKey.Fetch, 12, fetch_body(0, wait=3000))
        assert passed_by_itself(running) == 1


@pytest.mark.parametrize("version", [2, 12])
def test_requests_under_way_are_answered_before_the_gateway_closes(
    tmp_path: Path, version: int
) -> None:
    with served(tmp_path / "a") as (_, running), Wire(running.address) as client:
        client.ask(ApiKey.Fetch, version, fetch_body(0))
        ask = frame(ApiKey.Fetch, version, fetch_body(0, wait=600))
        count = 2 if version > 3 else 1  # as old ones are translated one by one
        client.socket.sendall((LENGTH.pack(len(ask)) + ask) * count)
        wait_for(lambda: any(one.is_busy for one in running.connections))
        running.stop()
        assert [len(client.receive()) > LENGTH.size for _ in range(count)] == [True] * count
        assert client.has_ended()


@pytest.mark.parametrize(("size", "count"), [(200_000, 300), (30_000, 1000)])  # spliced, or not
def test_a_client_that_does_not_read_holds_no_more_than_buffers(
    tmp_path: Path, size: int, count: int
) -> None:
    """It asks for many megabytes, and is sent them as fast as it takes them."""
    with served(tmp_path / "a") as (_, running), Wire(running.address) as client:
        request = produced("t", 3, bytes(size), 1)
        client.socket.sendall(LENGTH.pack(len(request)) + request)
        client.receive()
        ask = frame(ApiKey.Fetch, 12, fetch_body(0))
        client.socket.sendall((LENGTH.pack(len(ask)) + ask) * count)
        (connection,) = running.connections
        wait_for(lambda: connection.passing.queued_bytes > 0)
        sleep(PAUSE)  # the broker has time to send more than the gateway may hold
        sizes, queued = set[int](), list[int]()
        for _ in range(count):
            queued.append(connection.passing.queued_bytes)
            sizes.add(len(client.receive()))
        assert 0 < max(queued) < 400_000
        assert len(sizes) == 1
        assert sizes.pop() > size


@pytest.mark.parametrize("versions", [[12], [2], [1, 12, 12, 12]], ids=["passed", "old", "both"])
@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
def test_a_slow_client_gets_all_responses_in_their_order(
    tmp_path: Path, seed: int, versions: list[int]
) -> None:
    """It reads in pieces and with pauses, so that the gateway stops reading at any byte."""
    random = Random(seed)
    sizes = [random.randrange(9_000, 60_000) for _ in range(60)]
    sizes += [random.randrange(10, 5_000) for _ in range(20)]
    random.shuffle(sizes)
    with (
        served(tmp_path / "a") as (_, running),
        Wire(running.address, SO_RCVBUF=65536) as client,
    ):
        for size in sizes:
            request = produced("t", 3, random.randbytes(size), 1)
            client.socket.sendall(LENGTH.pack(len(request)) + request)
            client.receive()
        fetches = [fetch_body(random.randrange(len(sizes)), max_bytes=1) for _ in range(400)]
        asked = [frame(ApiKey.Fetch, random.choice(versions), one) for one in fetches]
        asked = [numbered(request, number) for number, request in enumerate(asked)]
        wanted = []
        for request in asked:
            client.socket.sendall(LENGTH.pack(len(request)) + request)
            wanted.append(client.receive())
        client.socket.sendall(b"".join(LENGTH.pack(len(one)) + one for one in asked))
        for response in wanted:
            got = b""
            while len(got) < len(response):
                got += client.take(min(random.randrange(1, 90_000), len(response) - len(got)))
                sleep(random.choice([0, 0, 0, 0, 0.001]))
            assert got == response
