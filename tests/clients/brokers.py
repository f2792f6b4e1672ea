"""Servers of the topics: a broker of Apache Kafka, and our own, on the same log."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import kafka_server
from tests.kafka_server import KafkaServer

from .topics import Topic


@contextmanager
def kafka_with(
    topics: Sequence[Topic], directory: Path, version: str = kafka_server.OLD
) -> Iterator[KafkaServer]:
    """A broker of Apache Kafka that found the logs of `directory` in its own, after a crash."""
    with (
        tempfile.TemporaryDirectory(prefix="kafka-log-") as temporary,
        kafka_server.running(version, log_dir=Path(temporary)) as kafka,
    ):
        for topic in topics:
            kafka.create_topic(topic.name, len(topic.partitions))
        kafka.kill(0, signal.SIGTERM)
        log_dir = kafka.log_dirs[0]
        (log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
        (log_dir / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
        starts = directory / "log-start-offset-checkpoint"
        if starts.exists():
            shutil.copy(starts, log_dir)
        for partition in directory.iterdir():
            if partition.is_dir():
                for file in partition.glob("*.log"):
                    shutil.copy(file, log_dir / partition.name)
                for index in (log_dir / partition.name).glob("*index"):
                    index.unlink()
        kafka.restart(0)
        yield kafka


@contextmanager
def served(directory: Path, *options: str) -> Iterator[str]:
    """The address of `downconvert serve DIRECTORY`, with options that it has."""
    serve = ("-m", "downconvert", "serve", str(directory), "--listen", "127.0.0.1:0", "--json")
    no_delay = ("--rebalance-delay", "0")  # one consumer a group: there is nobody to wait for
    with subprocess.Popen(
        (sys.executable, *serve, *no_delay, *options),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready, "the server did not start"
        address = json.loads(ready)
        try:
            yield f"{address['host']}:{address['port']}"
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
