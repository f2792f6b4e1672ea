"""Servers of the topics: a broker of Apache Kafka, and our own, on the same log."""

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import kafka_server
from tests.clients.topics import Topic
from tests.kafka_server import KafkaServer


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
        shutil.copy(directory / "log-start-offset-checkpoint", log_dir)
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
    """The address of our own server of the directory; `writable`: it takes what is produced."""
    with subprocess.Popen(
        (sys.executable, "-m", "tests.clients.server", str(directory), *options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, "the server did not start"
        try:
            yield address
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
