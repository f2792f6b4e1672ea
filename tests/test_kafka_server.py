"""Brokers run while they are asked for, and not a moment longer."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from .kafka_server import KafkaError, running

ROOT: Final = Path(__file__).parents[1]


def test_a_broker_creates_the_requested_topics(tmp_path: Path) -> None:
    with running(log_dir=tmp_path) as kafka:
        kafka.create_topic("events", partitions=2, config={"segment.bytes": "1048576"})
        with pytest.raises(KafkaError, match="error 36"):
            kafka.create_topic("events")
        port = kafka.ports[0]
    assert {path.name for path in tmp_path.glob("events-*")} == {"events-0", "events-1"}
    assert not _responses(port)


def test_a_broker_takes_its_classes_from_the_archive() -> None:
    with running() as kafka:
        mapped = Path(f"/proc/{kafka.pid(0)}/maps").read_text()
    assert "/broker.jsa" in mapped


def test_the_other_goes_on_where_one_of_two_is_killed_and_comes_back() -> None:
    with running(nodes=2) as kafka:
        kafka.create_topic("events", replicas=2)
        kafka.kill(1)
        kafka.await_fenced(1)
        kafka.create_topic("more")
        kafka.restart(1)
        assert all(_responses(port) for port in kafka.ports)


def test_a_broker_that_cannot_start_says_why() -> None:
    with (
        pytest.raises(KafkaError, match=r"died:\n(.*\n)*.*num\.io\.threads"),
        running(properties={"num.io.threads": "none"}),
    ):
        pass


def test_brokers_die_with_a_process_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import time; from tests.kafka_server import running\n"
        "with running() as kafka: print(kafka.ports[0], flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        (sys.executable, "-c", code),
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert _responses(port)
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while _responses(port) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _responses(port)


def _responses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except OSError:
        return False
    return True
