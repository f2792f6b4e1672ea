"""Kafka Connect by itself (standalone) with its connectors for files, as old as the client inside.

A connector such as Debezium's is run by a worker of this kind: what it says to the cluster is the
worker's. The worker keeps offsets in a file and asks for no topic of its own."""

from functools import partial
from pathlib import Path
from typing import Final

from tests.clients.install import JAVA
from tests.ports import free_ports

from . import packages
from .application import AS_IT_COMES, NAMES, Application, Does, Trial
from .children import running

VERSIONS: Final = ("0.10.1.1", "0.11.0.3", "2.0.1")
_WORKER: Final = """
bootstrap.servers={bootstrap}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
internal.key.converter=org.apache.kafka.connect.json.JsonConverter
internal.value.converter=org.apache.kafka.connect.json.JsonConverter
internal.key.converter.schemas.enable=false
internal.value.converter.schemas.enable=false
offset.storage.file.filename={here}/offsets
offset.flush.interval.ms=1000
rest.port={port}
rest.host.name=127.0.0.1
consumer.auto.offset.reset=earliest
"""
_SOURCE: Final = """
name=in
connector.class=org.apache.kafka.connect.file.FileStreamSourceConnector
tasks.max=1
file={here}/in.log
topic={topic}
"""
_SINK: Final = """
name=out
connector.class=org.apache.kafka.connect.file.FileStreamSinkConnector
tasks.max=1
file={here}/out.log
topics={topic}
"""


def install(version: str) -> Path:
    parts = ("connect-runtime", "connect-file", "connect-json")
    logging = "org.slf4j:slf4j-simple:1.7.36"
    wanted = tuple(f"org.apache.kafka:{part}:{version}" for part in parts)
    return packages.maven(f"connect-{version}", (*wanted, logging), exclusions=packages.LOGGING)


def produce(trial: Trial) -> str:
    trial.write("in.log", "".join(f"{name}\n" for name in NAMES))
    _run(trial, _SOURCE)
    return ""


def consume(trial: Trial) -> str:
    _run(trial, _SINK)
    out = trial.directory / "out.log"
    return out.read_text(errors="replace") if out.exists() else ""


def _run(trial: Trial, what: str) -> None:
    known = {"here": trial.directory, "topic": trial.topic, "bootstrap": trial.bootstrap}
    worker = trial.write("worker.properties", _WORKER.format(**known, port=free_ports(1)[0]))
    connector = trial.write("connector.properties", what.format(**known))
    program = ("org.apache.kafka.connect.cli.ConnectStandalone", str(worker), str(connector))
    with running((*JAVA, "-cp", f"{trial.installed}/*", *program), trial.log) as process:
        if what == _SOURCE:
            trial.until(trial.arrived, process)
        else:
            trial.until(lambda: trial.has_all(trial.directory / "out.log"), process)


def _application(version: str, part: str, does: Does) -> Application:
    return Application(
        name=f"Kafka Connect {version}, {part}",
        comes_from=f"Maven: org.apache.kafka:connect-runtime {version}",
        client=f"kafka-clients {version}",
        does=does,
        settings=(AS_IT_COMES,),
        install=partial(install, version),
        run=produce if does is Does.PRODUCES else consume,
    )


APPLICATIONS: Final = tuple(
    _application(version, part, does)
    for version in VERSIONS
    for part, does in (("source", Does.PRODUCES), ("sink", Does.CONSUMES))
)
