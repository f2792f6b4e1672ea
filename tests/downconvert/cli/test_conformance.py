"""`downconvert conformance`, on our own broker, and on Kafka's."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.serving.tls import server_context
from downconvert.storage import LogDir
from tests import kafka_secured, kafka_server, kafka_zookeeper
from tests.certificates import self_signed
from tests.downconvert.broker.guarding import guard_of
from tests.ports import LOOPBACK, free_ports
from tests.report_pages import check_fits_a_phone

from .running import Command, one_line


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    directory = tmp_path / "log"
    directory.mkdir()
    with LogDir.open(directory, writable=True) as log_dir:
        soon = {"log_initial_task_delay_ms": 0, "log_retention_check_interval_ms": 200}
        broker = Broker(log_dir, BrokerConfig(is_writable=True, **soon))
        with Server(broker, (LOOPBACK, 0)) as server:
            yield f"{LOOPBACK}:{server.address[1]}"
        left = set(broker.topics)
        assert left <= {"__transaction_state"}, "all of its topics are deleted"


def test_our_own_broker_keeps_every_rule(command: Command, address: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ran = command("conformance", address, "--json", "--html", page)
    document = json.loads(ran.out)
    assert document["faults"] == []
    assert (ran.code, document["right"]) == (0, document["cases"])
    assert document["cases"] > 500
    assert document["skipped"] == []
    assert f"Yes: {document['right']} of {document['cases']} cases are right." in page.read_text()
    check_fits_a_phone(page)


def test_one_topic_is_enough_and_markdown_is_for_documents(command: Command, address: str) -> None:
    ran = command("conformance", address, "--topic", "odd", "--markdown", "Ours")
    assert ran.out.startswith("## Ours\n\n**57 of 57 cases are right.** Fetch 0-18.")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A broker that speaks TLS to those that log in, and the certificate to trust."""
    directory = tmp_path_factory.mktemp("guarded")
    certificate, key = self_signed(directory)
    (directory / "log").mkdir()
    with LogDir.open(directory / "log", writable=True) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=True))
        broker.guard = guard_of({"tester": "right"})
        tls = server_context(Path(certificate), Path(key))
        (port,) = free_ports(1)
        with Server(broker, (LOOPBACK, port), advertise=("localhost", port), tls=tls):
            yield f"localhost:{port}", certificate


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_broker_with_tls_and_users_is_judged_as_any_other(
    command: Command,
    guarded: tuple[str, str],
    mechanism: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, ca = guarded
    monkeypatch.setenv("DOWNCONVERT_SASL_SECRET", "right")
    login = ("--ca", ca, "--sasl", mechanism, "--username", "tester")
    ran = command("conformance", address, "--topic", "odd", "--json", *login)
    assert ran.out, ran.err
    document = json.loads(ran.out)
    assert (ran.code, document["right"], document["cases"]) == (0, 57, 57)


@pytest.mark.parametrize(
    ("options", "secret", "words"),
    [
        ((), "right", "ApiVersions v0: "),
        (("--tls",), "right", "certificate"),
        (("--ca", "CA"), "right", "wants a login"),
        (("--ca", "CA", "--sasl", "PLAIN", "--username", "tester"), "wrong", "Authentication"),
        (("--ca", "CA", "--sasl", "PLAIN", "--username", "tester"), None, "no secret for --sasl"),
        (("--ca", "CA", "--sasl", "OAUTHBEARER"), "token", "does not take OAUTHBEARER"),
        (("--ca", "/nowhere"), "right", "/nowhere"),
        (("--key", "/nowhere"), "right", "--key needs --cert"),
        (("--username", "tester"), "right", "--username needs --sasl"),
        (("--sasl", "PLAIN"), "right", "--sasl needs --username"),
    ],
)
def test_a_refused_login_is_reported_with_the_reason(
    command: Command,
    guarded: tuple[str, str],
    options: tuple[str, ...],
    secret: str | None,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, ca = guarded
    monkeypatch.delenv("DOWNCONVERT_SASL_SECRET", raising=False)
    if secret is not None:
        monkeypatch.setenv("DOWNCONVERT_SASL_SECRET", secret)
    given = [ca if option == "CA" else option for option in options]
    ran = command("conformance", address, "--topic", "odd", *given)
    assert ran.code == 2
    assert words in one_line(ran.err)


@pytest.mark.parametrize("address", ["localhost", "localhost:x", "localhost:0", ":99999"])
def test_an_address_has_a_port(command: Command, address: str) -> None:
    ran = command("conformance", address)
    assert (ran.code, "HOST:PORT" in one_line(ran.err)) == (2, True)


def test_a_broker_that_only_reads_is_reported_with_what_to_do(
    command: Command, tmp_path: Path
) -> None:
    with LogDir.open(tmp_path) as log_dir, Server(Broker(log_dir), (LOOPBACK, 0)) as server:
        address = f"{LOOPBACK}:{server.address[1]}"
        ran = command("conformance", address)
    assert ran.code == 2
    assert one_line(ran.err) == (
        f"downconvert: {address}: it creates no topics (error 31 (CLUSTER_AUTHORIZATION_FAILED)); "
        "the user needs rights to topics named conformance-*, and `downconvert serve` needs "
        "--writable"
    )


def test_a_missing_broker_cannot_be_judged(command: Command) -> None:
    (port,) = free_ports(1)
    ran = command("conformance", f"{LOOPBACK}:{port}")
    assert (ran.code, str(port) in one_line(ran.err)) == (2, True)


@contextmanager
def with_kraft() -> Iterator[int]:
    """The last Kafka that serves old clients."""
    with kafka_server.running(kafka_server.OLD) as kafka:
        yield kafka.ports[0]


@pytest.mark.others
@pytest.mark.skipif(
    bool(kafka_server.missing()) and not kafka_server.REQUIRED, reason="there is no Java here"
)
@pytest.mark.parametrize("start", [kafka_zookeeper.running, with_kraft], ids=["2.8", "3.9"])
def test_kafkas_known_faults_are_found(
    command: Command, start: Callable[[], AbstractContextManager[int]]
) -> None:
    """Filler, the first batch twice and zstd refused, in old versions; nothing in new ones."""
    with start() as port:
        ran = command("conformance", f"{LOOPBACK}:{port}", "--json")
    document = json.loads(ran.out)
    found = {fault["rule"]: fault for fault in document["faults"]}
    assert ran.code == 1
    assert {"filler", "once", "codec"} <= set(found)
    assert "transactions" in found["once"]["topics"]
    assert all(max(found[rule]["versions"]) < 4 for rule in found if rule != "codec")
    assert max(found["codec"]["versions"]) == 9
    assert document["again"] > 0.01


@pytest.mark.others
@pytest.mark.skipif(
    bool(kafka_server.missing()) and not kafka_server.REQUIRED, reason="there is no Java here"
)
def test_a_broker_of_kafka_with_tls_and_users_is_judged(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kafka_secured.running() as (address, certificate):
        for mechanism in kafka_secured.MECHANISMS:
            login = ("--ca", certificate, "--sasl", mechanism, "--username", kafka_secured.USER)
            monkeypatch.setenv("DOWNCONVERT_SASL_SECRET", kafka_secured.SECRET)
            ran = command("conformance", address, "--topic", "odd", *login)
            assert (ran.code, ran.out.count("54 of 54 cases are right")) == (0, 1), ran
            monkeypatch.setenv("DOWNCONVERT_SASL_SECRET", "wrong")
            assert "uthentication failed" in one_line(command("conformance", address, *login).err)
        assert "it speaks TLS" in one_line(command("conformance", address).err)
        monkeypatch.setenv("DOWNCONVERT_SASL_SECRET", kafka_secured.SECRET)
        ran = command("conformance", address, "--topic", "stored-v0", *login)
        assert (ran.code, "nothing to judge: stored-v0: " in one_line(ran.err)) == (2, True)


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (b"", "closed the connection"),
        (b"\xff\xff\xff\xff", "a response of -1 bytes"),
        (b"\x7f\xff\xff\xff", "bytes"),
        (b"\0\0\0\4\0\0\0\x63", "another request"),
        (b"\0\0\0\x0a\0\0\0\1\0\0\x7f\xff\xff\xff", "cannot be read"),
        (b"\0\0\0\x0a\0\0\0\1\0\0\0\0\0\0", "it offers no Fetch"),
        (b"\x15\x03\x03\0\2\2\x50", "it speaks TLS"),
    ],
    ids=["closed", "negative", "huge", "another", "count", "no versions", "alert"],
)
def test_a_server_that_is_not_a_broker_cannot_be_judged(
    command: Command, response: bytes, words: str
) -> None:
    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1000)
            self.request.sendall(response)

    with ThreadingTCPServer((LOOPBACK, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        ran = command("conformance", f"{LOOPBACK}:{server.server_address[1]}")
        server.shutdown()
        thread.join()
    assert ran.code == 2
    assert words in one_line(ran.err)
