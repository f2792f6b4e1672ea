"""Other readers of a topic's records: Spark's own Kafka source, and Kafka's own dump tool.

A broker of Kafka 3.9.1 serves the same files, as links: it is started once to create the topic, and
again when the files are in place. This needs Java and Maven, and a network the first time: Maven
fetches Spark's source into `build/`."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from tests import kafka_server
from tests.fetching import once, run

from .kafka_jvm import JVM_OPTIONS, UnavailableError

HOME: Final = Path(__file__).parent / "spark_kafka"
CACHE: Final = Path(__file__).parents[2] / "build" / "spark-kafka"
# The needed jars. Spark already has the others.
WANTED: Final = (
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
)
TOPIC: Final = "orders"
DUMP: Final = "kafka.tools.DumpLogSegments"


def jars() -> str:
    """The jars of Spark's Kafka source, as `spark.jars` takes them. UnavailableError: no Maven."""
    if kafka_server.missing():
        raise UnavailableError(f"there is no {' nor '.join(kafka_server.missing())}")
    with once(CACHE) as folder:
        if folder is not None:
            run(
                *("mvn", "-q", "-B", "-f", str(HOME / "pom.xml"), kafka_server.COPY),
                f"-DincludeArtifactIds={','.join(WANTED)}",
                f"-DoutputDirectory={folder}",
            )
    return ",".join(map(str, sorted(CACHE.glob("*.jar"))))


@contextmanager
def broker_over(directories: Sequence[Path], place: Path) -> Iterator[str]:
    """Starts a broker with a topic whose partitions have the segments of these directories. Yields
    its address. The broker's own directory is in `place`, with its own indexes."""
    with TemporaryDirectory(prefix="broker-", dir=place) as home:
        log_dir = Path(home)
        with kafka_server.running(log_dir=log_dir, jvm_options=JVM_OPTIONS) as kafka:
            kafka.create_topic(TOPIC, partitions=len(directories))
            kafka.kill(0)
            for number, directory in enumerate(directories):
                for file in directory.glob("*.log"):
                    link = log_dir / f"{TOPIC}-{number}" / file.name
                    link.unlink(missing_ok=True)
                    os.link(file, link)
            kafka.restart(0)
            yield kafka.bootstrap


def kafka_source(session: SparkSession, bootstrap: str) -> DataFrame:
    """All records of the topic, with the columns of the data source."""
    reader = session.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", TOPIC).option("startingOffsets", "earliest").load()


def dump_seconds(segments: Sequence[Path]) -> float:
    """CPU seconds of `kafka-dump-log --print-data-log` for segments, its start included.

    Like Kafka's script, it sets no garbage collector and a heap of 256 MB. UnavailableError: it
    failed."""
    command = ("java", "-Xmx256M", "-cp", kafka_server.prepare(kafka_server.OLD), DUMP)
    process = subprocess.Popen(
        (*command, "--print-data-log", "--files", ",".join(map(str, segments))),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise UnavailableError(f"kafka-dump-log ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime
