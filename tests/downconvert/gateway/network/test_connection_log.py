"""Lines of connections' ends, of which there are thousands where a broker fails."""

import logging
from contextlib import ExitStack
from os import getpid
from pathlib import Path

import pytest

from downconvert.access.identity import Users
from downconvert.access.rights import Access, parse_network
from downconvert.gateway.identity import ClientRule, Identities
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.line_budget import LINES_MAX
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
