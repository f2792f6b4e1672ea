"""`downconvert gateway` as its operator runs it: a process, its settings, signals, and reports."""

import json
import logging
import re
import resource
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from downconvert.cli.signals import SIGNALS
from downconvert.gateway.settings import SECRET_VARIABLE
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.gateway.serving import TIMEOUT, Wire, cluster
from tests.downconvert.gateway.talk import fetch_body, message_set, produce_body, values_of
from tests.ports import LOOPBACK, free_ports

from .gateways import Running, gateway, produce, wait_for_line
from .running import Command, one_line, start

DENIED = 29  # topic authorization failed
SECRET = "correct-horse-battery"


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_it_prints_the_address_and_serves_the_oldest_clients(
    port: int, options: tuple[str, ...]
) -> None:
    with gateway(port, *options) as running:
        assert produce(running) == 0
        response = running.ask(ApiKey.Fetch, 0, fetch_body(0))
        assert values_of(response.responses[0].partitions[0]) == [b"a"]
        ready = running.ready()
        if options:
            assert json.loads(ready)["ready"]
        else:
            assert ready.startswith("ready: clients connect to")
            assert ready.endswith("; Ctrl-C ends it\n")
        code, output = running.end()
    assert code == 0
    assert "closing" in output


def test_flags_override_settings_from_a_file(port: int, tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(f'bootstrap = "{LOOPBACK}:1"\nread_only = true\n')
    with gateway(port, "--config", file) as running:
        assert produce(running) == DENIED


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        ((), "", "--bootstrap HOST:PORT"),
        (("--bootstrap", "kafka:port"), "", "write HOST:PORT"),
        (("--bootstrap", "k:1", "--sasl", "PLAIN"), "", SECRET_VARIABLE),
        (("--bootstrap", "k:1", "--tls-cert", "c"), "", "--tls-key"),
        (("--bootstrap", "k:1", "--networks", "10.0/8"), "", "write for example 10.1.0.0/16"),
        (("--bootstrap", "k:1", "--recode", "lz4"), "", "such as lz4=gzip"),
        (("--bootstrap", "k:1", "--node-port", "x"), "", "broker ids"),
        (("--bootstrap", "k:1", "--topics", ""), "", "--topics is empty"),
        (("--bootstrap", "k:1", "--topics", ","), "", "topics is an empty list"),
        ((), "spool_dir = ''", "spool_dir is empty"),
        (("--bootstrap", "k:1", "--groups", " "), "", "groups is an empty list"),
        (("--bootstrap", "k:1", "--topics", "t", "--observe"), "", "passes everything through"),
        (("--bootstrap", "k:1", "--listen", "192.0.2.1:1"), "", "192.0.2.1:1"),
        ((), "lisen = 1", "'lisen' is not a setting; is listen meant"),
        ((), "= 1", "settings.toml"),
        (("--report", f"{LOOPBACK}:1"), "", "is a gateway running there with --http"),
    ],
)
def test_invalid_settings_end_with_one_line_of_advice(
    command: Command, tmp_path: Path, arguments: tuple[str, ...], text: str, message: str
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    ran = command("gateway", *arguments, *(("--config", file) if text else ()))
    assert (ran.code, ran.out) == (2, "")
    assert re.search(message, one_line(ran.err))


def test_a_command_leaves_nothing_in_the_process(command: Command) -> None:
    threads = set(threading.enumerate())
    before = [signal.getsignal(number) for number in SIGNALS]
    ran = command("gateway", "--bootstrap", "k:1", "--listen", "192.0.2.1:1")
    assert ran.code == 2
    assert [signal.getsignal(number) for number in SIGNALS] == before
    assert set(threading.enumerate()) <= threads  # those of earlier tests may have ended
    log = logging.getLogger("downconvert.gateway")
    assert (log.handlers, log.level, log.propagate) == ([], logging.NOTSET, True)


def test_a_missing_file_is_named(command: Command) -> None:
    ran = command("gateway", "--config", "/no/such.toml")
    assert (ran.code, one_line(ran.err)) == (2, "downconvert: /no/such.toml: no such file")


def test_settings_are_read_again_for_later_connections(port: int, tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text("")
    with gateway(port, "--config", file) as running, Wire(running.address) as before:
        before.ask(ApiKey.Metadata, 1, Message(topics=None))
        file.write_text("read_only = true")
        running.process.send_signal(signal.SIGHUP)
        wait_for_line(running, "read again")
        body = produce_body(message_set(0, b"a"))
        response = before.ask(ApiKey.Produce, 0, body)
        assert response.responses[0].partition_responses[0].error_code == 0
        assert produce(running) == DENIED
        file.write_text("= 1")
        running.process.send_signal(signal.SIGHUP)
        wait_for_line(running, "stay as they were")
        assert produce(running) == DENIED


def test_a_reload_says_that_sections_of_clusters_wait_for_a_restart(
    port: int, tmp_path: Path
) -> None:
    (node,) = free_ports(1)
    settings = (
        f'bootstrap = "{LOOPBACK}:{port}"\nlisten = "{LOOPBACK}:0"\nnode_ports = {{ 0 = {node} }}\n'
    )
    file = tmp_path / "gateway.toml"
    file.write_text(settings)
    with start("gateway", "--config", file) as process:
        running = Running(process, as_json=False)
        file.write_text(f'[[clusters]]\nname = "a"\n{settings}')
        process.send_signal(signal.SIGHUP)
        wait_for_line(running, "need a restart: [[clusters]], cluster a")
        assert produce(running) == 0
        running.end()


def test_a_current_request_is_answered_before_the_end(port: int) -> None:
    with gateway(port) as running, Wire(running.address) as client:
        produce(running)
        client.send(ApiKey.Fetch, 1, fetch_body(1, wait=3000))
        client.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.take(1)
        client.socket.settimeout(TIMEOUT)
        running.process.terminate()
        assert client.receive()
        assert client.has_ended()
        assert running.process.wait(TIMEOUT) == 0


def test_the_secret_is_never_printed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, SECRET)
    options = ("--sasl", "PLAIN", "--username", "u", "--json")
    with gateway(port, *options) as running:
        with Wire(running.address) as client:
            client.send(ApiKey.Metadata, 1, Message(topics=None))
            assert client.has_ended()  # the cluster knows of no SASL
        code, output = running.end()
    assert code == 0
    assert all(json.loads(line)["message"] for line in output.splitlines())
    assert "client 127.0.0.1" in output
    assert SECRET not in running.connecting + output


def test_a_second_gateway_on_a_port_reports_that_it_is_in_use(port: int, command: Command) -> None:
    with gateway(port) as running:
        where = str(running.address)
        ran = command("gateway", "--bootstrap", f"{LOOPBACK}:{port}", "--listen", where)
    assert ran.code == 2
    assert f"cannot listen at {where}: Address already in use" in one_line(ran.err)
    assert "--listen" in one_line(ran.err)


def test_an_address_with_an_unknown_host_is_named_without_a_number(command: Command) -> None:
    ran = command("gateway", "--bootstrap", f"{LOOPBACK}:9", "--listen", "nowhere.invalid:9092")
    assert ran.code == 2
    assert "cannot listen at nowhere.invalid:9092: " in one_line(ran.err)
    assert "Errno" not in ran.err


@pytest.mark.parametrize("option", [("--by", "rule"), ("--html", "page.html")])
def test_options_of_a_report_need_one(command: Command, option: tuple[str, str]) -> None:
    ran = command("gateway", *option)
    assert ran.code == 2
    assert f"{option[0]} needs --report URL" in one_line(ran.err)


def test_the_files_that_the_system_allows_are_used(port: int) -> None:
    with gateway(port) as running:
        soft, hard = resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE)
    assert soft == hard


def test_another_cluster_is_used_after_the_settings_have_been_read_again(
    port: int, tmp_path: Path
) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(f'bootstrap = "{LOOPBACK}:1"\n[limits]\nidle_timeout = 99\n')
    options = ("--config", file, "--connect-timeout", 2, "--request-timeout", 5)
    with gateway(port, *options, listen=False) as running:
        with Wire(running.address) as client:
            client.send(ApiKey.Metadata, 1, Message(topics=None))
            assert client.has_ended()
        file.write_text(f'bootstrap = "{LOOPBACK}:{port}"\n')
        running.process.send_signal(signal.SIGHUP)
        wait_for_line(running, "read again")
        assert running.ask(ApiKey.Metadata, 1, Message(topics=None)).topics


def test_an_http_port_in_use_is_named(port: int, command: Command) -> None:
    ran: Any = command(
        "gateway",
        "--bootstrap",
        f"{LOOPBACK}:{port}",
        "--listen",
        f"{LOOPBACK}:0",
        "--node-port",
        f"0={free_ports(1)[0]}",
        "--http",
        f"{LOOPBACK}:{port}",
    )
    assert ran.code == 2
    assert f"{LOOPBACK}:{port}" in one_line(ran.err)


def test_requests_are_in_the_log_if_wanted(port: int) -> None:
    with gateway(port, "-v", "--json") as running:
        running.ask(ApiKey.Fetch, 0, fetch_body(0))
        _, output = running.end()
    lines = [json.loads(line) for line in output.splitlines()]
    (line,) = (one for one in lines if one.get("request") == "Fetch v0")
    assert line["client_id"] == "test"
    assert line["translation"] in ("is translated", "passes")


@pytest.mark.parametrize("as_json", [False, True])
def test_the_gateway_is_ready_only_after_the_cluster_has_answered(
    tmp_path: Path, as_json: bool
) -> None:
    """Before that it says what it connects to; clients may come, and wait."""
    directory = tmp_path / "log"
    directory.mkdir()
    (port,) = free_ports(1)
    with gateway(port, *(["--json"] if as_json else [])) as running:
        if as_json:
            assert json.loads(running.connecting)["ready"] is False
        else:
            assert running.connecting.startswith(f"connecting to {LOOPBACK}:{port}; ")
        wait_for_line(running, "cannot be asked for its brokers")
        with cluster(directory, "t", port=port):
            ready = running.ready()
    assert json.loads(ready)["ready"] if as_json else ready.startswith("ready: ")


@pytest.mark.parametrize("address", ["abc", "kafka-1:0"])
def test_a_bootstrap_address_without_a_port_is_refused(command: Command, address: str) -> None:
    ran = command("gateway", "--bootstrap", address)
    assert ran.code == 2
    assert one_line(ran.err) == f"downconvert: {address!r} is not an address: write HOST:PORT"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_brokers_follow_the_port_that_the_system_chose(port: int, workers: str) -> None:
    """The port that follows may belong to a connection of another program, but not each time."""
    found: list[int] = []
    for _ in range(5):
        process = start(
            "gateway",
            *("--bootstrap", f"{LOOPBACK}:{port}", "--listen", f"{LOOPBACK}:0"),
            *("--workers", workers),
        )
        try:
            running = Running(process, as_json=False)
            first = running.address.port + 1
            assert f"brokers follow from port {first} on" in running.ready()
            with suppress(EOFError, ConnectionError):
                output = running.ask(ApiKey.Metadata, 1, Message(topics=None))
                found = [one.port - first - one.node_id for one in output.brokers]
        finally:
            process.kill()
            process.communicate()
        if found:
            break
    assert found == [0]


def test_a_report_states_why_no_gateway_responses(command: Command) -> None:
    ran = command("gateway", "--report", f"{LOOPBACK}:1")
    assert "Connection refused; is a gateway running there" in one_line(ran.err)
    assert "urlopen" not in ran.err


def test_a_settings_file_that_is_not_utf_8_is_named_with_the_line(
    command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "gateway.toml"
    file.write_bytes(b'# one\nlisten = "\xff"\n')
    assert one_line(command("gateway", "--config", file).err).endswith(
        f"{file}: line 2 is not UTF-8"
    )
