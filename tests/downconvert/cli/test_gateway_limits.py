"""A gateway as a process, whose rules limit connections, new connections and request time."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.errors import KafkaError

from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.gateway.serving import Wire
from tests.downconvert.gateway.talk import fetch_body
from tests.ports import LOOPBACK, free_ports
from tests.waiting import wait_for

from .gateways import Running, gateway

RULE = '[[clients]]\nuser = "ann"\n'
OTHER = '[[clients]]\nuser = "bob"\n'
ALL_TOPICS = Message(topics=None)
NO_MEMBER = Message(group_id="g", member_id="m")
NO_RECORDS = Message(acks=1, timeout_ms=1000, topic_data=[])


class Limited:
    """A gateway with users, one of whose rules has limits."""

    def __init__(self, running: Running, http: str, audit: Path) -> None:
        self.running = running
        self._http = http
        self._audit = audit

    def log_in(self, client: Wire, user: str = "ann") -> None:
        client.ask(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
        token = f"\0{user}\0secret".encode()
        response = client.ask(ApiKey.SaslAuthenticate, 0, Message(auth_bytes=token))
        assert response.error_code == 0

    def metric(self, line: str) -> float:
        with urlopen(f"{self._http}/metrics") as page:
            lines = page.read().decode().splitlines()
        found = [one for one in lines if one.startswith(f"downconvert_gateway_{line} ")]
        return sum(float(one.rpartition(" ")[2]) for one in found)

    @property
    def refused(self) -> float:
        return self.metric('connections_ended_total{reason="over_limit"}')

    def audited(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self._audit.read_text().splitlines()]


@contextmanager
def limited(port: int, directory: Path, limits: str, *options: object) -> Iterator[Limited]:
    users, audit = directory / "users", directory / "audit.json"
    users.write_text("ann:secret\nbob:secret\n")
    (http,) = free_ports(1)
    settings = directory / "gateway.toml"
    settings.write_text(f'users_file = "{users}"\naudit = "{audit}"\n{OTHER}{RULE}{limits}\n')
    address = f"{LOOPBACK}:{http}"
    with gateway(port, "--config", settings, "--http", address, "--json", *options) as running:
        running.ready()
        yield Limited(running, f"http://{address}", audit)


def test_a_principal_has_as_many_connections_as_its_rule_allows(port: int, tmp_path: Path) -> None:
    with limited(port, tmp_path, "connections = 2") as served, ExitStack() as stack:
        first, second = (stack.enter_context(Wire(served.running.address)) for _ in range(2))
        for client in (first, second):
            served.log_in(client)
        with Wire(served.running.address) as third:
            served.log_in(third)  # its password is right
            response = third.ask(ApiKey.ApiVersions, 0, Message())
            assert response.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            assert third.has_ended()
        with Wire(served.running.address) as fourth:  # it does not ask for versions
            served.log_in(fourth)
            fourth.send(ApiKey.Metadata, 1, ALL_TOPICS)
            assert fourth.has_ended()
        with Wire(served.running.address) as other:
            served.log_in(other, "bob")
            assert other.ask(ApiKey.Metadata, 1, ALL_TOPICS).brokers
        assert first.ask(ApiKey.Metadata, 1, ALL_TOPICS).brokers
        wait_for(lambda: served.refused == 2)
        second.socket.close()
        wait_for(lambda: served.metric('connections_ended_total{reason="client_closed"}') >= 2)
        with Wire(served.running.address) as fifth:
            served.log_in(fifth)
            assert fifth.ask(ApiKey.Metadata, 1, ALL_TOPICS).brokers
        _, log = served.running.end()
    refusals = [json.loads(line) for line in log.splitlines() if "over_limit" in line]
    assert [one["principal"] for one in refusals] == ["ann", "ann"]
    assert all(one["level"] == "warning" for one in refusals)
    assert "it has 2 connections already" in refusals[0]["message"]
    audited = [one["principal"] for one in served.audited() if one["event"] == "refused"]
    assert audited == ["ann", "ann"]


def test_a_connection_above_the_limit_takes_no_place_of_others(port: int, tmp_path: Path) -> None:
    limits = "connections = 1\n[limits]\nconnections = 2\n"
    with limited(port, tmp_path, limits) as served, ExitStack() as stack:
        first, beyond = (stack.enter_context(Wire(served.running.address)) for _ in range(2))
        for client in (first, beyond):
            served.log_in(client)
        with Wire(served.running.address) as other:
            served.log_in(other, "bob")
            assert other.ask(ApiKey.Metadata, 1, ALL_TOPICS).brokers
        assert first.ask(ApiKey.Metadata, 1, ALL_TOPICS).brokers
        assert beyond.has_ended()


def test_new_connections_that_come_too_fast_wait(port: int, tmp_path: Path) -> None:
    with limited(port, tmp_path, "connection_creation_rate = 2") as served:
        began = time.monotonic()
        for _ in range(5):
            with Wire(served.running.address) as client:
                served.log_in(client)
        assert time.monotonic() - began > 1.2  # two at once, and three more at 2 a second
        assert served.refused == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_more_connections_than_may_wait_are_refused_without_a_flood_of_lines(
    port: int, tmp_path: Path, workers: int
) -> None:
    rate = "connection_creation_rate = 0.1"
    with limited(port, tmp_path, rate, "--workers", workers) as served:
        with Wire(served.running.address) as first:
            served.log_in(first)
            assert first.ask(ApiKey.Metadata, 1, ALL_TOPICS).brokers
            for _ in range(40):
                with Wire(served.running.address) as client:
                    served.log_in(client)
                    client.send(ApiKey.Metadata, 1, ALL_TOPICS)
                    assert client.has_ended()
            wait_for(lambda: served.refused == 40)
        _, log = served.running.end()
    lines = [line for line in log.splitlines() if "more than 0.1 connections a second" in line]
    assert len(lines) < 40
    assert any("more, the last one" in line for line in lines)


def test_requests_beyond_the_request_time_are_answered_and_then_delayed(
    port: int, tmp_path: Path
) -> None:
    limits = "request_percentage = 0.5"  # five milliseconds a second
    with limited(port, tmp_path, limits) as served:
        with Wire(served.running.address) as client:
            served.log_in(client)
            began = time.monotonic()
            throttled = 0
            while time.monotonic() - began < 1:
                throttled += client.ask(ApiKey.Produce, 1, NO_RECORDS).throttle_time_ms
            slowed = served.metric('throttled_seconds_total{api="Produce"}')
            assert throttled > 100
            assert slowed == pytest.approx(throttled / 1000, rel=0.1, abs=0.1)
        with Wire(served.running.address) as other:
            served.log_in(other, "bob")
            response = other.ask(ApiKey.Produce, 1, NO_RECORDS)
            assert response.throttle_time_ms == 0


def test_a_real_client_reports_the_refusal_and_connects_when_there_is_room(
    port: int, tmp_path: Path
) -> None:
    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ann",
        "sasl_plain_password": "secret",
    }
    with limited(port, tmp_path, "connections = 1") as served:
        where = str(served.running.address)
        with Wire(served.running.address) as first:
            served.log_in(first)
            with pytest.raises(KafkaError):
                KafkaConsumer(bootstrap_servers=where, api_version_auto_timeout_ms=1000, **options)
        wait_for(lambda: served.metric("connections") == 0)
        admin = KafkaAdminClient(bootstrap_servers=where, **options)
        admin.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_requests_and_bytes_are_counted_by_rule(port: int, tmp_path: Path, workers: int) -> None:
    with limited(port, tmp_path, "", "--workers", workers) as served:
        sizes = {}
        for user, times in (("bob", 1), ("ann", 5)):
            with Wire(served.running.address) as client:
                served.log_in(client, user)
                before = client.received
                for _ in range(times):  # the first is examined, the others pass
                    client.ask(ApiKey.Heartbeat, 4, NO_MEMBER)
                    client.ask(ApiKey.Fetch, 1, fetch_body(0, max_bytes=1000))
                    client.ask(ApiKey.Fetch, 4, fetch_body(0, max_bytes=1000))
                sizes[user] = client.received - before
        for number, user, times in ((1, "bob", 1), (2, "ann", 5)):
            rule = f'{{rule="rule {number}"}}'
            count = partial(served.metric, f"rule_request_duration_seconds_count{rule}")
            wait_for(lambda: count() == 3 * times)  # noqa: B023
            assert served.metric(f"rule_sent_bytes_total{rule}") == sizes[user]
            assert served.metric(f"rule_received_bytes_total{rule}") > 0
            assert served.metric(f"rule_request_duration_seconds_sum{rule}") > 0


TOP = "connections = 2\n"
NETWORK = '[[clients]]\nnetworks = "127.0.0.0/8"\nconnections = 2\n'


@pytest.mark.parametrize("settings", [TOP, NETWORK], ids=["top", "rule"])
@pytest.mark.parametrize("workers", [1, 2])
def test_clients_that_do_not_log_in_are_limited_by_address_over_all_processes(
    port: int, tmp_path: Path, settings: str, workers: int
) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(settings)
    options = ("--config", file, "--workers", workers)
    with gateway(port, *options) as running, ExitStack() as stack:
        running.ready()
        codes = []
        for _ in range(40):  # the system chooses their process: each gets some
            client = stack.enter_context(Wire(running.address))
            codes.append(client.ask(ApiKey.ApiVersions, 0, Message()).error_code)
    assert set(codes) == {0, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert codes.count(0) == 2
