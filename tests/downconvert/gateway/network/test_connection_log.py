"""Lines of connections' ends, of which there are thousands where a broker fails."""

import logging
from contextlib import ExitStack
from os import getpid
from pathlib import Path

import pytest

from downconvert.access.identity import Users
from downconvert.access.rights import Access, parse_network
from downconvert.gateway.audit import Audit
from downconvert.gateway.figures import End
from downconvert.gateway.identity import ClientRule, Identities
from downconvert.gateway.network.connection_log import log_handshake, log_refusal
from downconvert.gateway.network.handshake import Handshake
from downconvert.gateway.session.session import Session
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.line_budget import LINES_MAX, LineBudget
from tests.downconvert.gateway.serving import Wire, cluster, gateway
from tests.waiting import wait_for

CLIENTS = 60


def test_the_failure_of_a_broker_makes_few_lines_that_say_how_many_it_hit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "downconvert.gateway")
    with ExitStack() as stack:
        with cluster(tmp_path, "t") as (_, port):
            running = stack.enter_context(gateway(port))
            clients = [stack.enter_context(Wire(running.address)) for _ in range(CLIENTS)]
            for client in clients:
                client.ask(ApiKey.Metadata, 1, Message(topics=[]))
        for _ in range(3):
            for _ in range(CLIENTS // 2):
                with Wire(running.address) as client:
                    client.send(ApiKey.Metadata, 1, Message(topics=[]))
                    assert client.has_ended()
        wait_for(lambda: len(running.places) == 0)
    ends = [r.getMessage() for r in caplog.records if "[broker_failed" in r.getMessage()]
    seconds = caplog.records[-1].created - caplog.records[0].created
    assert len(ends) <= (LINES_MAX + 1) * (seconds + 2)
    omitted = [int(line.split()[1]) for line in ends if line.startswith("and ")]
    assert sum(omitted) + len(ends) - len(omitted) == CLIENTS + 3 * (CLIENTS // 2)


def test_each_end_says_who_the_client_was_or_claimed_to_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "downconvert.gateway")
    host = parse_network("127.0.0.1")
    rules = (
        ClientRule(access=Access(), credentials=None, user="ann"),
        ClientRule(access=Access(), credentials=None, networks=(host,)),
    )
    identities = Identities(users=Users({"ann": "secret"}), rules=rules)
    with cluster(tmp_path, "t") as (_, port), gateway(port, identities=identities) as running:
        for password in ("secret", "wrong", None):
            with Wire(running.address) as client:
                if password is not None:
                    client.ask(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
                    token = f"\0ann\0{password}".encode()
                    client.ask(ApiKey.SaslAuthenticate, 0, Message(auth_bytes=token))
                if password != "wrong":
                    client.ask(ApiKey.Metadata, 1, Message(topics=[]))
            wait_for(lambda: len(running.places) == 0)
    ends = [one for one in caplog.records if " requests in " in one.getMessage()]
    lines = [one.getMessage().partition("unknown software")[2] for one in ends]
    process = getpid()
    assert lines == [
        f", principal 'ann', connection {process}-1]",
        f", claims to be 'ann', connection {process}-2]",
        f", principal 'rule 2', connection {process}-3]",
    ]
    fields = [(one.fields["principal"], one.fields["claimed"]) for one in ends]  # type: ignore[attr-defined]
    assert fields == [("ann", "ann"), ("", "ann"), ("rule 2", "")]
    assert all("client 127.0.0.1: " in one.getMessage() for one in ends)
    assert all("client id 'test', " in one.getMessage() for one in ends)  # a failed login's, too
    rows = [(row["principal"], row["rule"]) for row in running.census.rows()]
    assert rows == [("ann", "rule 1"), ("rule 2", "rule 2")]


def test_a_flood_of_refused_clients_makes_few_lines_of_the_audit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "downconvert.audit")
    access = Access(networks=(parse_network("10.0.0.0/8"),))
    with cluster(tmp_path, "t") as (_, port), gateway(port, access=access) as running:
        for _ in range(CLIENTS):
            with Wire(running.address) as client:
                assert client.has_ended()
    ours = [record for record in caplog.records if record.name == "downconvert.audit"]
    seconds = ours[-1].created - ours[0].created
    assert 1 <= len(ours) <= (LINES_MAX + 1) * (seconds + 2)
    assert len(ours) < CLIENTS
    assert "its network is not allowed" in ours[0].getMessage()


def test_a_defect_ends_one_connection_and_its_traceback_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, "t") as (_, port), gateway(port) as running:
        with monkeypatch.context() as patch:
            patch.setattr(Session, "exchange", _fails)
            with Wire(running.address) as client:
                client.send(ApiKey.Metadata, 1, Message(topics=[]))
                assert client.has_ended()
        with Wire(running.address) as other:
            other.ask(ApiKey.Metadata, 1, Message(topics=[]))
    (line,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "client 127.0.0.1: a defect of the gateway" in line.getMessage()
    assert line.exc_info is not None
    assert str(line.exc_info[1]) == "planted"
    assert line.fields == {  # type: ignore[attr-defined]
        "client": "127.0.0.1",
        "connection": f"{getpid()}-1",
        "number": 1,
    }


def _fails(*_: object) -> None:
    raise ZeroDivisionError("planted")


def test_floods_of_refusals_and_of_failed_handshakes_are_limited_apart(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = LineBudget()
    audit = Audit(LineBudget(), clock=lambda: 0.0)
    for _ in range(3 * LINES_MAX):
        log_refusal(lines, audit, "10.0.0.1", "there are too many", End.REFUSED, now=0.0)
    for _ in range(3 * LINES_MAX):
        log_handshake(lines, "10.0.0.2", "no cipher", End.TIMEOUT, Handshake(), now=0.0)
    for address in ("10.0.0.1", "10.0.0.2"):
        shown = [one for one in caplog.records if f"client {address}" in one.getMessage()]
        assert len([one for one in shown if one.name == log_refusal.__module__]) == LINES_MAX


@pytest.mark.parametrize("reason", [End.REFUSED, End.CLIENT, End.TIMEOUT, End.LIMIT])
def test_the_audit_has_the_clients_that_are_refused_and_not_those_that_failed_or_left(
    caplog: pytest.LogCaptureFixture, reason: End
) -> None:
    caplog.set_level(logging.INFO, "downconvert")
    audit = Audit(LineBudget(), clock=lambda: 0.0)
    log_refusal(LineBudget(), audit, "10.0.0.1", "it sent no header", reason, now=0.0)
    audited = [one for one in caplog.records if one.name == "downconvert.audit"]
    (line,) = [one for one in caplog.records if one not in audited]
    assert len(audited) == (reason is End.REFUSED)
    assert line.levelno == (logging.INFO if reason is End.CLIENT else logging.WARNING)
