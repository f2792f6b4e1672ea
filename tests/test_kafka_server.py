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

from . import kafka_server
from .kafka_server import KafkaError, running

ROOT: Final = Path(__file__).parents[1]
FENCED_AFTER: Final = 6.0  # seconds; a controller believes in a broker for four


@pytest.mark.parametrize("version", [kafka_server.OLD, kafka_server.NEW])
def test_a_broker_has_the_topics_that_it_is_told_to_create(version: str, tmp_path: Path) -> None:
    with running(version, log_dir=tmp_path) as kafka:
        kafka.create_topic("events", partitions=2, config={"segment.bytes": "1048576"})
        with pytest.raises(KafkaError, match="error 36"):
            kafka.create_topic("events")
        port = kafka.ports[0]
    assert {path.name for path in tmp_path.glob("events-*")} == {"events-0", "events-1"}
    assert not _answers(port)


def test_others_go_on_where_one_of_three_is_killed_and_comes_back() -> None:
    with running(nodes=3) as kafka:
        kafka.create_topic("events", replicas=3)
        kafka.kill(1)
        time.sleep(FENCED_AFTER)  # until then new topics may be put on the dead one
        kafka.create_topic("more")
        kafka.restart(1)
        assert all(_answers(port) for port in kafka.ports)


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
        assert _answers(port)
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while _answers(port) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _answers(port)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True
