"""Spark Streaming's connectors for Kafka 0.8 and 0.10: a direct stream, read to its end.

Spark 2 wants Java 8; on a later one it runs with the packages of the JDK opened to it, and no jobs:
what the stream finds is read by the connector all the same, a partition at a time."""

from functools import partial
from pathlib import Path
from typing import Final

from tests.clients.install import JAVA

from . import packages
from .application import AS_IT_COMES, Application, Does, Trial
from .children import running

CONNECTORS: Final = (
    ("2.4.8", "0-8", "Spark08", "kafka 0.8.2.1"),
    ("2.3.4", "0-10", "Spark010", "kafka-clients 0.10.0.1"),
    ("2.4.8", "0-10", "Spark010", "kafka-clients 2.0.0"),
)


def install(spark: str, connector: str, program: str) -> Path:
    wanted = (
        f"org.apache.spark:spark-streaming_2.11:{spark}",
        f"org.apache.spark:spark-streaming-kafka-{connector}_2.11:{spark}",
    )
    return packages.maven(f"spark-{spark}-{connector}", wanted, program)


def run(program: str, trial: Trial) -> str:
    out = trial.directory / "out.log"
    path = ("-cp", f"{trial.installed}:{trial.installed}/*")
    memory = ("-Xmx768M",)  # Spark does not start with less than 450 MiB
    command = (*JAVA, *memory, *packages.OPENED, *path, program, trial.bootstrap, trial.topic)
    with running(command, trial.log, out=out) as process:
        trial.until(lambda: trial.has_all(out), process)
    return out.read_text(errors="replace")


APPLICATIONS: Final = tuple(
    Application(
        name=f"Spark {spark}, connector {connector}",
        comes_from=f"Maven: org.apache.spark:spark-streaming-kafka-{connector}_2.11 {spark}",
        client=client,
        does=Does.CONSUMES,
        settings=(AS_IT_COMES,),
        install=partial(install, spark, connector, program),
        run=partial(run, program),
    )
    for spark, connector, program, client in CONNECTORS
)
