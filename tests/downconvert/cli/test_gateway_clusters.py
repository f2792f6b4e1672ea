"""`downconvert gateway` with [[clusters]]: two brokers, an old client of each, and one process."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.gateway.serving import TIMEOUT, Wire, cluster
from tests.downconvert.gateway.talk import fetch_body, message_set, produce_body, values_of
from tests.ports import LOOPBACK, free_ports
from tests.waiting import wait_for

from .running import Command, one_line, start

NAMES = ("east", "west")
DENIED = 29  # topic authorization failed


@dataclass
class Several:
    """A gateway of two clusters as a process. `first_lines`: its first lines on standard output."""

    process: "subprocess.Popen[str]"
    file: Path
    http: str
    listen: dict[str, Address]
    first_lines: list[dict[str, Any]]

    def ask(self, name: str, api: ApiKey, version: int, body: Message) -> Message:
        with Wire(self.listen[name]) as client:
            return client.ask(api, version, body)

    def produce(self, name: str) -> int:
        """The error code that an old producer gets."""
        body = produce_body(message_set(0, name.encode()))
        response = self.ask(name, ApiKey.Produce, 0, body)
        code: int = response.responses[0].partition_responses[0].error_code
        return code

    def page(self, path: str) -> str:
        with urlopen(f"http://{self.http}{path}", timeout=TIMEOUT) as response:
            text: str = response.read().decode()
        return text

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def wait_for_lines(self, words: str, count: int) -> list[dict[str, Any]]:
        """The next lines of the log with these words."""
        assert self.process.stderr is not None
        found = []
        while len(found) < count:
            text = self.process.stderr.readline()
            assert text, f"it ended without saying {words!r} {count} times"
            if words in text:
                found.append(json.loads(text))
        return found


def section(name: str, port: int, listen: Address, node: int) -> str:
    return (
        f'\n[[clusters]]\nname = "{name}"\nbootstrap = "{LOOPBACK}:{port}"\n'
        f'listen = "{listen}"\nnode_ports = {{ 0 = {node} }}\n'
    )


@contextmanager
def serving(directory: Path, ports: tuple[int, ...], *options: object) -> Iterator[Several]:
    """In front of the clusters at these ports."""
    (http, *free) = free_ports(1 + 2 * len(ports))
    listen = {name: Address(LOOPBACK, port) for name, port in zip(NAMES, free[::2], strict=True)}
    file = directory / "gateway.toml"
    file.write_text(
        f'http = "{LOOPBACK}:{http}"\njson = true\nrefresh_seconds = 0.2\n'
        f'history = "{directory}/history.json"\naudit = "{directory}/audit.json"\n'
        + "".join(
            section(name, port, listen[name], node)
            for name, port, node in zip(NAMES, ports, free[1::2], strict=True)
        )
    )
    process = start("gateway", "--config", file, *options)
    served = Several(process, file, f"{LOOPBACK}:{http}", listen, [])
    try:
        served.first_lines += [served.line() for _ in ports]
        yield served
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[int, ...]]:
    with ExitStack() as stack:
        yield tuple(stack.enter_context(cluster(made(tmp_path / name), "t"))[1] for name in NAMES)


def made(directory: Path) -> Path:
    directory.mkdir()
    return directory


@pytest.mark.parametrize("workers", [1, 2])
def test_an_old_client_of_each_cluster_reads_what_it_wrote_there(
    brokers: tuple[int, ...], command: Command, tmp_path: Path, workers: int
) -> None:
    with serving(tmp_path, brokers, "--workers", workers) as served:
        assert [(one["cluster"], one["ready"]) for one in served.first_lines] == [
            ("east", False),
            ("west", False),
        ]
        assert {served.line()["cluster"] for _ in NAMES} == set(NAMES)
        for name in NAMES:
            assert served.produce(name) == 0
            response = served.ask(name, ApiKey.Fetch, 0, fetch_body(0))
            assert values_of(response.responses[0].partitions[0]) == [name.encode()]
        served.ask("west", ApiKey.CreateTopics, 0, new_topic("of-west"))

        metrics = served.page("/metrics").splitlines()
        for name in NAMES:
            sample = f'translated_requests_total{{api="Produce",cluster="{name}",version="0"}} 1.0'
            assert f"downconvert_gateway_{sample}" in [_sorted(line) for line in metrics]
        assert f"downconvert_gateway_processes {workers * len(NAMES) if workers > 1 else 1}.0" in (
            metrics
        )

        report = ("gateway", "--report", served.http)
        rows = json.loads(command(*report, "--json").out)
        assert {(row["cluster"], row["api"]) for row in rows if row["api"] == "Produce"} == {
            (name, "Produce") for name in NAMES
        }
        groups = json.loads(command(*report, "--by", "cluster", "--json").out)
        assert sorted(one["name"] for one in groups) == list(NAMES)
        by_topic = command(*report, "--by", "topic").out
        assert all(f"{name}: No old version was seen since" in by_topic for name in NAMES)

        served.process.send_signal(signal.SIGTERM)
        _, output = served.process.communicate(timeout=TIMEOUT)
        assert served.process.returncode == 0
    ends = [json.loads(line) for line in output.splitlines() if "client_closed" in line]
    assert {one["cluster"] for one in ends} == set(NAMES)
    audit = [json.loads(line) for line in (tmp_path / "audit.json").read_text().splitlines()]
    assert [(one["cluster"], one["event"]) for one in audit] == [("west", "changed")]
    history = json.loads((tmp_path / "history.json").read_text())["clusters"]
    assert {name: [row[:2] for row in history[name]["rows"]] for name in NAMES} == {
        "east": [["t", ""]],
        "west": [["of-west", ""], ["t", ""]],
    }


def new_topic(name: str) -> Message:
    topic = Message(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    return Message(topics=[topic], timeout_ms=1000)


def _sorted(line: str) -> str:
    """A sample with its labels in order."""
    name, brace, rest = line.partition("{")
    labels, end, value = rest.partition("}")
    return name + brace + ",".join(sorted(labels.split(","))) + end + value


def test_a_cluster_that_is_gone_does_not_stop_the_other(tmp_path: Path) -> None:
    ports = tuple(free_ports(2))
    with ExitStack() as stack:
        stack.enter_context(cluster(made(tmp_path / "east"), "t", port=ports[0]))
        served = stack.enter_context(serving(tmp_path, ports))
        output = served.line()
        assert (output["cluster"], output["ready"]) == ("east", True)
        assert served.produce("east") == 0
        assert served.page("/readyz") == "ok\n"
        (line,) = served.wait_for_lines("the cluster cannot be asked", 1)
        assert line["cluster"] == "west"
        with cluster(made(tmp_path / "west"), "t", port=ports[1]):
            output = served.line()
            assert (output["cluster"], output["ready"]) == ("west", True)
            assert served.produce("west") == 0
        wait_for(lambda: 'ready{cluster="west"} 0.0' in served.page("/metrics"))
        assert served.produce("east") == 0


def test_a_reload_is_reported_and_applied_by_cluster(
    brokers: tuple[int, ...], tmp_path: Path
) -> None:
    with serving(tmp_path, brokers) as served:
        for _ in NAMES:
            served.line()
        before = served.file.read_text()
        third = section("north", brokers[0], Address(LOOPBACK, 1), 2)
        served.file.write_text(before + "read_only = true\n" + third)
        served.process.send_signal(signal.SIGHUP)
        lines = served.wait_for_lines("have been read again", 3)
        found = {one.get("cluster"): (one["applied"], one["after_restart"]) for one in lines}
        assert found == {
            None: ([], ["cluster north"]),
            "east": ([], []),
            "west": (["what clients may do"], []),
        }
        assert [served.produce(name) for name in NAMES] == [0, DENIED]
        served.file.write_text(before.replace('name = "west"', "read_onli = true"))
        served.process.send_signal(signal.SIGHUP)
        (line,) = served.wait_for_lines("the settings stay as they were", 1)
        assert "(line 13: [[clusters]])" in line["message"]
        assert served.produce("east") == 0
        top, _, _ = before.partition("[[clusters]]")
        served.file.write_text(f'{top}\nbootstrap = "{LOOPBACK}:{brokers[0]}"')
        served.process.send_signal(signal.SIGHUP)
        (line,) = served.wait_for_lines("have been read again", 1)
        assert line["after_restart"] == ["[[clusters]]", "cluster east", "cluster west"]
        assert [served.produce(name) for name in NAMES] == [0, DENIED]


def test_check_tells_what_each_cluster_means(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    text = "deny_by_default = true\n" + "".join(
        section(name, 1, Address(LOOPBACK, port), port + 1)
        for name, port in (("east", 1), ("west", 3))
    )
    file.write_text(text)
    ran = command("gateway", "--config", file, "--check")
    assert ran.code == 0
    assert [line for line in ran.out.splitlines() if line.startswith(("name", "listen"))] == [
        "name               east",
        "listen             127.0.0.1:1",
        "name               west",
        "listen             127.0.0.1:3",
    ]
    checked = json.loads(command("gateway", "--config", file, "--check", "--json").out)["clusters"]
    assert [(one["name"], one["deny by default"]) for one in checked] == [
        ("east", "yes"),
        ("west", "yes"),
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("node_portz = 1", "(line 13: node_portz = 1)"),
        ('tls_cert = "/none"\ntls_key = "/none"', '(line 13: tls_cert = "/none")'),
        ("[clusters.limits]\nconnections = 0", "(line 14: connections = 0)"),
    ],
)
def test_a_wrong_line_of_a_section_is_shown(
    command: Command, tmp_path: Path, more: str, message: str
) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(
        section("east", 1, Address(LOOPBACK, 1), 2)
        + section("west", 1, Address(LOOPBACK, 3), 4)
        + more
    )
    ran = command("gateway", "--config", file, "--check")
    assert (ran.code, ran.out) == (2, "")
    assert "cluster west: " in ran.err
    assert one_line(ran.err).endswith(message)


def test_a_port_in_use_is_reported_with_its_cluster(command: Command, tmp_path: Path) -> None:
    east, west = free_ports(2)
    file = tmp_path / "gateway.toml"
    file.write_text(
        section("east", 1, Address(LOOPBACK, east), 1)
        + section("west", 1, Address("192.0.2.1", west), 2)
    )
    ran = command("gateway", "--config", file)
    assert ran.code == 2
    assert ran.err.endswith("; choose another with listen of cluster west\n")
