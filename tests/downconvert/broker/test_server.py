"""Real sockets, and clients that do what they should not."""

import logging
import select
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest
from scramp import ScramClient

from downconvert import LazyRecodedRecords
from downconvert.broker import Broker
from downconvert.broker.access.rights import Access
from downconvert.broker.appending import prepare
from downconvert.broker.contribution import Reading
from downconvert.broker.exchange import Exchange
from downconvert.broker.handlers.fetch import Fetch
from downconvert.broker.limits import Limits
from downconvert.broker.reading_converted import read_converted
from downconvert.broker.server import Server
from downconvert.broker.state import BrokerState
from downconvert.broker.tls import server_context
from downconvert.broker.wake import Wake
from downconvert.broker.wire.schemas import ApiKey, Message
from downconvert.storage import LogDir
from records import Codec, MemoryRecords
from records.formats import V1, V2
from records.units import KiB, MiB
from tests.downconvert.storage.logs import batch

from .asking import frame
from .fetching import broker_of
from .guarding import guard_of
from .talking import API_VERSIONS, SECONDS, TOPIC, Talk, fetch, serving, serving_broker
from .writable import writable_broker

SMALL_BUFFER: Final = 4 * KiB
QUICK: Final = Limits(request=0.3, idle=30.0, stop=1.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as running:
        yield running


@pytest.fixture
def without_defects(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing goes wrong in the server itself."""
    yield
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    directory = tmp_path_factory.mktemp("tls")
    files = directory / "cert.pem", directory / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run(command, check=True, capture_output=True)
    return files


def fetched(talk: Talk, version: int = 2, offset: int = 0) -> list[int]:
    answer = talk.ask(ApiKey.Fetch, version, fetch(offset))
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == 0
    batches = MemoryRecords(bytes(partition.records)).batches()
    return [header.last_offset for header in batches]


@pytest.mark.parametrize("version", [0, 2, 4])
def test_records_are_served_as_they_are_and_converted(server: Server, version: int) -> None:
    with Talk(server.address) as talk:
        for _ in range(3):
            assert fetched(talk, version)[-1] == 29


def test_answers_have_the_order_of_their_requests(server: Server) -> None:
    with Talk(server.address) as talk:
        for _ in range(20):
            talk.send(ApiKey.Fetch, 2, fetch())
            talk.send(*API_VERSIONS)
        sizes = [len(talk.receive()) for _ in range(40)]
    assert len(set(sizes[::2])) == len(set(sizes[1::2])) == 1
    assert sizes[0] != sizes[1]


def test_a_request_may_come_byte_by_byte(server: Server) -> None:
    with Talk(server.address) as talk:
        data = frame(*API_VERSIONS)
        for byte in len(data).to_bytes(4) + data:
            talk.socket.sendall(bytes([byte]))
        assert talk.receive()


def test_brokers_are_said_to_be_where_the_client_came_to(server: Server) -> None:
    with Talk(server.address) as talk:
        (node,) = talk.ask(ApiKey.Metadata, 1, Message(topics=None)).brokers
        assert (node.host, node.port) == server.address


def test_brokers_are_said_to_be_where_the_operator_says(tmp_path: Path) -> None:
    with (
        serving(tmp_path, advertise=("logs.example.org", 9092)) as server,
        Talk(server.address) as talk,
    ):
        (node,) = talk.ask(ApiKey.Metadata, 1, Message(topics=None)).brokers
        assert (node.host, node.port) == ("logs.example.org", 9092)


@pytest.mark.parametrize("version", [2, 4])
def test_a_fetch_that_waits_is_answered_at_its_deadline(server: Server, version: int) -> None:
    took = []
    with Talk(server.address) as talk:
        for _ in range(10):
            started = time.monotonic()
            talk.ask(ApiKey.Fetch, version, fetch(offset=30, wait=50))
            took.append(time.monotonic() - started)
    assert min(took) >= 0.05
    assert median(took) < 0.5


def test_an_answer_that_another_thread_gives_goes_out_at_once(tmp_path: Path) -> None:
    held: list[Exchange] = []
    broker = Broker(LogDir.open(tmp_path))

    def hold(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        held.append(exchange)

    api = broker.apis[ApiKey.Metadata]
    broker.apis = {**broker.apis, ApiKey.Metadata: type(api)(hold, api.versions)}
    with serving_broker(broker) as server, Talk(server.address) as talk:
        talk.send(ApiKey.Metadata, 0, Message(topics=[]))
        while not held:
            time.sleep(0.001)
        held[0].reply(Message(brokers=[], topics=[]))
        assert talk.receive()


def test_who_is_woken_often_wakes_once_and_can_be_woken_again() -> None:
    wake = Wake()
    for _ in range(3):
        for _ in range(1000):
            wake.ring()
        assert select.select([wake.reader], [], [], SECONDS)[0]
        assert wake.reader.recv(1024, socket.MSG_PEEK) == b"!"
        wake.hear()
        assert not select.select([wake.reader], [], [], 0)[0]
    wake.close()


def test_a_defect_ends_one_connection_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(LogDir.open(tmp_path))

    def fail(_broker: BrokerState, _exchange: Exchange, _now: float) -> None:
        raise KeyError("a defect")

    api = broker.apis[ApiKey.Metadata]
    broker.apis = {**broker.apis, ApiKey.Metadata: type(api)(fail, api.versions)}
    with serving_broker(broker) as server, Talk(server.address) as other:
        with Talk(server.address) as talk:
            talk.send(ApiKey.Metadata, 0, Message(topics=[]))
            assert talk.has_ended()
        assert other.is_served()
    assert [r.getMessage() for r in caplog.records if r.exc_info] == [
        "a defect: 127.0.0.1 is disconnected"
    ]


def test_a_defect_in_what_waits_ends_that_one_and_not_who_woke_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_fetch: Fetch, _now: float) -> None:
        raise ValueError("a defect")

    with (
        writable_broker(tmp_path, TOPIC) as broker,
        serving_broker(broker, network_threads=1) as server,
        ExitStack() as stack,
    ):
        waiting = [stack.enter_context(Talk(server.address)) for _ in range(6)]
        for version, talk in enumerate(waiting):
            talk.send(ApiKey.Fetch, version, fetch(wait=60_000))
        assert comes_true(lambda: len(broker.purgatory) == len(waiting))
        monkeypatch.setattr("downconvert.broker.handlers.fetch.Fetch.resume", fail)
        with Talk(server.address) as producer:
            for _ in range(3):
                data = [Message(index=0, records=batch(0))]
                topics = [Message(name=TOPIC, partition_data=data)]
                body = Message(acks=1, timeout_ms=1000, topic_data=topics)
                (topic,) = producer.ask(ApiKey.Produce, 9, body).responses
                assert topic.partition_responses[0].error_code == 0
            assert all(talk.has_ended() for talk in waiting)
            assert producer.is_served()
        assert comes_true(lambda: len(server.admission) == 0)
    said = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert said == ["a defect: Fetch of 127.0.0.1 is not answered"] * len(waiting)


def test_old_clients_that_wait_are_worked_on_by_converting_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def counted(*args: Any, **fields: Any) -> Reading:
        threads.append(threading.current_thread().name)
        return read_converted(*args, **fields)

    monkeypatch.setattr("downconvert.broker.fetch_reader.read_converted", counted)
    with (
        writable_broker(tmp_path, TOPIC) as broker,
        serving_broker(broker) as server,
        ExitStack() as stack,
    ):
        waiting = [stack.enter_context(Talk(server.address)) for _ in range(40)]
        for number, talk in enumerate(waiting):
            talk.send(ApiKey.Fetch, number % 4, fetch(wait=60_000))
        assert comes_true(lambda: len(broker.purgatory) == len(waiting))
        assert not threads, "there is nothing to convert"
        with Talk(server.address) as producer:
            data = [Message(index=0, records=batch(0, 1, codec=Codec.GZIP))]
            topics = [Message(name=TOPIC, partition_data=data)]
            body = Message(acks=1, timeout_ms=1000, topic_data=topics)
            producer.ask(ApiKey.Produce, 9, body)
        for talk in waiting:
            assert talk.receive()
    assert len(threads) == len(waiting)
    assert {name.partition("-")[0] for name in threads} == {"converting"}


def test_who_hangs_up_is_not_waited_for(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        purgatory = server.broker.purgatory
        for version in (2, 4):
            with Talk(server.address) as talk:
                talk.send(ApiKey.Fetch, version, fetch(offset=30, wait=60_000))
                assert comes_true(lambda: len(purgatory) == 1)
            assert comes_true(lambda: len(purgatory) == 0)


def test_records_that_change_while_they_are_sent_end_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        serving(tmp_path, batches=40, size=20 * KiB) as server,
        Talk(server.address, receive_buffer=SMALL_BUFFER) as talk,
    ):
        talk.send(ApiKey.Fetch, 2, fetch(max_bytes=16 * MiB))
        talk.socket.recv(1)
        (path,) = tmp_path.glob("*/*.log")
        with path.open("r+b") as log:
            log.truncate(1000)
        talk.drain()
        with Talk(server.address) as other:
            assert other.is_served()
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "cannot be finished" in warnings[0]


def test_one_that_is_handed_over_is_left_alone_by_who_had_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its exchange is done, and it goes to another thread, in a turn that has seen its next request
    already."""
    broker = Broker(LogDir.open(tmp_path))
    waiting: list[Exchange] = []
    is_busy, goes_on, is_answered = threading.Event(), threading.Event(), threading.Event()

    def hold(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        waiting.append(exchange)

    def keep_busy(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        is_busy.set()
        assert goes_on.wait(SECONDS)
        exchange.reply_nothing()

    def finish(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        waiting[0].reply(Message(responses=[]))
        exchange.reply_nothing()

    def wait_for_answer(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        assert is_answered.wait(SECONDS)
        exchange.reply_nothing()

    handlers = {
        ApiKey.Fetch: hold,
        ApiKey.ListGroups: keep_busy,
        ApiKey.Metadata: finish,
        ApiKey.DescribeGroups: wait_for_answer,
    }
    made = type(broker.apis[ApiKey.Fetch])
    broker.apis = dict(broker.apis) | {
        api: made(handler, broker.apis[api].versions) for api, handler in handlers.items()
    }
    with (
        serving_broker(broker, network_threads=1) as server,
        Talk(server.address) as old,
        Talk(server.address) as busy,
        Talk(server.address) as finishing,
        Talk(server.address) as slow,
    ):
        old.send(ApiKey.Fetch, 2, fetch())
        while not waiting:
            time.sleep(0.001)
        busy.send(ApiKey.ListGroups, 0, Message())
        assert is_busy.wait(SECONDS)
        finishing.send(ApiKey.Metadata, 0, Message(topics=[]))
        slow.send(ApiKey.DescribeGroups, 0, Message(groups=[]))
        old.send(*API_VERSIONS)
        goes_on.set()
        assert old.receive()  # from the other thread
        assert old.receive()
        is_answered.set()
        for _ in range(20):
            with Talk(server.address) as other:
                assert other.is_served()
        assert old.is_served()
    assert len(server.admission) == 0
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


# --- limits


def test_connections_beyond_the_limit_are_closed_and_others_served(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(connections=3)) as server, ExitStack() as stack:
        talks = [stack.enter_context(Talk(server.address)) for _ in range(3)]
        assert all(talk.is_served() for talk in talks)
        with Talk(server.address) as one_more:
            assert one_more.has_ended()
        assert all(talk.is_served() for talk in talks)
        talks[0].socket.close()
        assert eventually(lambda: Talk(server.address), lambda talk: talk.is_served())


def comes_true(condition: Callable[[], bool]) -> bool:
    """Whether it does before the time is up."""
    until = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < until:
        time.sleep(0.001)
    return condition()


def eventually(make: Callable[[], Talk], holds: Callable[[Talk], bool]) -> bool:
    """Whether it holds before the time is up."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        try:
            with make() as talk:
                if holds(talk):
                    return True
        except (AssertionError, OSError):
            time.sleep(0.01)
    return False


@pytest.mark.parametrize(
    "start",
    [b"\0\0\0\x10\0\x12", b"\0\0\0", (100 * MiB).to_bytes(4) + b"x" * 100],
    ids=["half a request", "half a length", "a large claim"],
)
def test_a_request_that_takes_too_long_ends_the_connection(tmp_path: Path, start: bytes) -> None:
    with serving(tmp_path, limits=QUICK) as server, Talk(server.address) as talk:
        talk.socket.sendall(start)
        assert talk.has_ended()


def test_who_dribbles_bytes_has_no_more_time(tmp_path: Path) -> None:
    with serving(tmp_path, limits=QUICK) as server, Talk(server.address) as talk:
        talk.socket.sendall(b"\0\0\x01\0")  # 256 bytes
        sent = 0
        with suppress(ConnectionError):  # reset, or a broken pipe
            for _ in range(256):
                talk.socket.sendall(b"x")
                sent += 1
                time.sleep(0.02)
        assert sent < 256


def test_who_is_idle_for_too_long_is_disconnected(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(idle=0.2)) as server, Talk(server.address) as talk:
        assert talk.is_served()
        assert talk.has_ended()


def test_who_waits_for_an_answer_is_not_idle(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(idle=0.2)) as server, Talk(server.address) as talk:
        talk.ask(ApiKey.Fetch, 2, fetch(offset=30, wait=2500))


@pytest.mark.usefixtures("without_defects")
@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        (2**31 - 1).to_bytes(4),
        (-1).to_bytes(4, signed=True),
        bytes(4),
        b"\0\0\0\x08" + b"\x7f\xff" * 4,
        b"\0\0\0\x0e\0\x01\x7f\xff\0\0\0\0\xff\xff\0\0\0\0",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    ],
    ids=["HTTP", "2 GB", "-1", "empty", "no such API", "no such version", "TLS"],
)
def test_garbage_ends_its_connection_alone(server: Server, data: bytes) -> None:
    with Talk(server.address) as other, Talk(server.address) as talk:
        talk.socket.sendall(data)
        assert talk.has_ended()
        assert other.is_served()


def test_half_sent_requests_take_little_memory(tmp_path: Path) -> None:
    limits = Limits(requests_memory=2 * MiB)
    with serving(tmp_path, limits=limits) as server, ExitStack() as stack:
        talks = [stack.enter_context(Talk(server.address)) for _ in range(8)]
        claim = (64 * MiB).to_bytes(4) + bytes(512 * KiB)
        for talk in talks:
            talk.socket.settimeout(0.2)
            with suppress(TimeoutError):
                talk.socket.sendall(claim)
        with Talk(server.address) as other:
            assert other.is_served()
        assert server.memory._free > -1 * MiB


def test_a_client_that_does_not_read_keeps_nobody_waiting(tmp_path: Path) -> None:
    with serving(tmp_path, batches=40, size=20 * KiB) as server, ExitStack() as stack:
        slow = [
            stack.enter_context(Talk(server.address, receive_buffer=SMALL_BUFFER)) for _ in range(5)
        ]
        for talk in slow:
            talk.send(ApiKey.Fetch, 2, fetch(max_bytes=16 * MiB))
        with Talk(server.address) as other:
            assert fetched(other, 2)
            assert fetched(other, 4)
        for talk in slow:  # and gets its answer, once it does; of what several ask for, a turn's
            assert len(talk.receive()) > MiB // 2


def test_a_flood_of_connections_leaves_nothing_behind(server: Server) -> None:
    for _ in range(300):
        with socket.create_connection(server.address) as flood:
            flood.sendall(b"\0\0")
    assert eventually(lambda: Talk(server.address), lambda talk: talk.is_served())
    until = time.monotonic() + SECONDS
    while len(server.admission) and time.monotonic() < until:
        time.sleep(0.01)
    assert len(server.admission) == 0


# --- the end


def test_stopping_finishes_what_is_under_way(tmp_path: Path) -> None:
    with (
        serving(tmp_path, batches=40, size=20 * KiB) as server,
        Talk(server.address, receive_buffer=SMALL_BUFFER) as talk,
    ):
        talk.send(ApiKey.Fetch, 2, fetch(max_bytes=16 * MiB))
        talk.socket.recv(1)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert talk.drain() > 7 * MiB
        stopping.join()


@pytest.mark.parametrize("version", [2, 4])
def test_stopping_lets_those_who_wait_have_their_answers(version: int, tmp_path: Path) -> None:
    limits = Limits(stop=SECONDS)
    with serving(tmp_path, limits=limits) as server, Talk(server.address) as talk:
        talk.send(ApiKey.Fetch, version, fetch(offset=30, wait=1_000))
        assert comes_true(lambda: len(server.broker.purgatory) == 1)
        stopping = threading.Thread(target=server.stop)
        started = time.monotonic()
        stopping.start()
        assert talk.receive()
        stopping.join()
        assert time.monotonic() - started < SECONDS


def test_stopping_does_not_wait_for_who_is_idle_or_does_not_read(tmp_path: Path) -> None:
    with (
        serving(tmp_path, batches=40, size=20 * KiB, limits=QUICK) as server,
        Talk(server.address),
        Talk(server.address, receive_buffer=SMALL_BUFFER) as slow,
    ):
        slow.send(ApiKey.Fetch, 2, fetch(max_bytes=16 * MiB))
        slow.socket.recv(1)
        started, address = time.monotonic(), server.address
        server.stop()
        assert time.monotonic() - started < SECONDS
        with pytest.raises(OSError, match=r".*"):
            socket.create_connection(address, timeout=1)


def test_a_server_that_cannot_listen_says_so(server: Server) -> None:
    with pytest.raises(OSError, match="in use"):
        Server(server.broker, server.address).start()


# --- TLS, SASL


@pytest.fixture
def secure(tmp_path: Path, certificate: tuple[Path, Path]) -> Iterator[Server]:
    options = {"tls": server_context(*certificate), "limits": QUICK}
    with serving(tmp_path, batches=40, size=20 * KiB, **options) as running:
        yield running


def test_tls_carries_the_same(secure: Server, certificate: tuple[Path, Path]) -> None:
    context = ssl.create_default_context(cafile=certificate[0])
    with Talk(secure.address, context) as talk:
        for version in (2, 4):
            assert fetched(talk, version)
        for _ in range(20):
            talk.send(*API_VERSIONS)
        for _ in range(20):
            assert talk.receive()


@pytest.mark.usefixtures("without_defects")
@pytest.mark.parametrize(
    "data", [b"", b"\x16", b"GET / HTTP/1.1\r\n\r\n", bytes(1000), b"\xff" * 1000]
)
def test_who_speaks_no_tls_is_disconnected(
    secure: Server, certificate: tuple[Path, Path], data: bytes
) -> None:
    with Talk(secure.address) as talk:
        talk.socket.sendall(data)
        talk.drain()  # an alert
    with Talk(secure.address, ssl.create_default_context(cafile=certificate[0])) as other:
        assert other.is_served()


@pytest.mark.usefixtures("without_defects")
def test_garbage_behind_a_handshake_ends_its_connection_alone(
    secure: Server, certificate: tuple[Path, Path]
) -> None:
    context = ssl.create_default_context(cafile=certificate[0])
    with Talk(secure.address, context) as talk, Talk(secure.address, context) as other:
        assert talk.is_served()
        raw = socket.socket(fileno=talk.socket.detach())
        raw.settimeout(SECONDS)
        with raw:
            raw.sendall(b"\x17\x03\x03\x00\x10" + bytes(16))
            with suppress(ConnectionError):
                while raw.recv(1000):  # an alert
                    pass
        assert other.is_served()


def test_who_does_not_authenticate_is_not_served(tmp_path: Path) -> None:
    broker = Broker(LogDir.open(tmp_path))
    broker.guard = guard_of({"alice": "wonderland"})
    with serving_broker(broker, limits=QUICK) as server:
        with Talk(server.address) as talk:
            talk.send(ApiKey.Metadata, 0, Message(topics=[]))
            assert talk.has_ended()
        with Talk(server.address) as talk:
            with suppress(ConnectionError):  # it may be cut off before it has sent all
                talk.send_frame(bytes(600_000))
            assert talk.has_ended()
        with Talk(server.address) as talk:  # it may ask for versions, but not stay
            assert talk.is_served()
            assert talk.has_ended()


def test_who_authenticates_is_served(tmp_path: Path) -> None:
    broker = Broker(LogDir.open(tmp_path))
    broker.guard = guard_of({"alice": "wonderland"})
    with serving_broker(broker) as server, Talk(server.address) as talk:
        theirs = ScramClient(["SCRAM-SHA-512"], "alice", "wonderland")
        talk.ask(ApiKey.SaslHandshake, 1, Message(mechanism="SCRAM-SHA-512"))
        body = Message(auth_bytes=theirs.get_client_first().encode())
        first = talk.ask(ApiKey.SaslAuthenticate, 0, body)
        theirs.set_server_first(bytes(first.auth_bytes).decode())
        body = Message(auth_bytes=theirs.get_client_final().encode())
        assert talk.ask(ApiKey.SaslAuthenticate, 0, body).error_code == 0
        assert talk.ask(ApiKey.Metadata, 1, Message(topics=None)).topics == []


def test_who_gives_a_wrong_password_hears_it_and_is_disconnected(tmp_path: Path) -> None:
    broker = Broker(LogDir.open(tmp_path))
    broker.guard = guard_of({"alice": "wonderland"})
    with serving_broker(broker) as server, Talk(server.address) as talk:
        talk.ask(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
        refused = talk.ask(ApiKey.SaslAuthenticate, 0, Message(auth_bytes=b"\0alice\0wrong"))
        assert refused.error_code == 58
        assert talk.has_ended()


@pytest.mark.parametrize(
    ("own", "version", "codec", "thread"),
    [
        ({"compression.type": "gzip"}, 9, Codec.LZ4, "converting"),
        ({"compression.type": "gzip"}, 9, Codec.NONE, "converting"),
        ({"compression.type": "gzip"}, 9, Codec.GZIP, "network"),
        ({}, 9, Codec.LZ4, "network"),
        ({}, 2, Codec.LZ4, "converting"),
    ],
)
def test_records_are_compressed_again_where_nobody_waits(
    own: dict[str, str],
    version: int,
    codec: Codec,
    thread: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[str] = []

    def prepared(*args: Any) -> Any:
        threads.append(threading.current_thread().name)
        return prepare(*args)

    monkeypatch.setattr("downconvert.broker.handlers.produce.prepare", prepared)
    with writable_broker(tmp_path, TOPIC) as broker:
        broker.topics.configure(TOPIC, own)
        magic = V2 if version > 2 else V1
        with serving_broker(broker) as server, Talk(server.address) as talk:
            for _ in range(2):
                records = batch(0, magic=magic, codec=codec)
                topics = [Message(name=TOPIC, partition_data=[Message(index=0, records=records)])]
                body = Message(acks=1, timeout_ms=1000, topic_data=topics)
                (topic,) = talk.ask(ApiKey.Produce, version, body).responses
                assert topic.partition_responses[0].error_code == 0
    assert [name.partition("-")[0] for name in threads] == [thread] * 2


def test_a_client_that_needs_another_codec_moves_to_where_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    to_send = LazyRecodedRecords.to_send

    def recoded(lazy: LazyRecodedRecords) -> Any:
        threads.append(threading.current_thread().name.partition("-")[0])
        return to_send(lazy)

    monkeypatch.setattr(LazyRecodedRecords, "to_send", recoded)
    with (
        broker_of(tmp_path, {TOPIC: {0: [batch(0, codec=Codec.ZSTD)]}}) as broker,
        serving_broker(broker) as server,
        Talk(server.address) as talk,
    ):
        for _ in range(3):
            (topic,) = talk.ask(ApiKey.Fetch, 9, fetch()).responses
            assert len(topic.partitions[0].records)
    assert threads == ["network", "converting", "converting"]


@pytest.mark.parametrize("is_tls", [False, True])
def test_who_takes_more_than_its_rate_is_answered_and_then_waits(
    tmp_path: Path, certificate: tuple[Path, Path], is_tls: bool
) -> None:
    """The clock of the test begins after the server's, so that the wait is never shorter."""
    context = server_context(*certificate) if is_tls else None
    theirs = ssl.create_default_context(cafile=certificate[0]) if is_tls else None
    with serving(tmp_path, size=100, tls=context) as server:
        rate = 4_000.0
        server.broker.guard = guard_of(None, Access(consumer_byte_rate=rate))
        with Talk(server.address, theirs) as talk, Talk(server.address, theirs) as other:
            started = time.monotonic()
            talk.send(ApiKey.Fetch, 4, fetch())
            talk.send(ApiKey.Fetch, 4, fetch())  # is there, and not read
            sizes = [len(talk.receive())]
            assert other.is_served()
            sizes.append(len(talk.receive()))
            talk.send(*API_VERSIONS)
            talk.receive()
            assert time.monotonic() - started > sum(sizes) / rate - 1 - 0.1
    assert sum(sizes) > 6_000
