"""Flume: lines of a file into a topic (sink), and a topic into files (source).

Its Kafka source and sink bring a Java client of the time: 0.9 in Flume 1.7 and 1.8, 2.0 in 1.9."""

from functools import partial
from pathlib import Path
from typing import Final

from tests.clients.install import JAVA

from . import packages
from .application import AS_IT_COMES, NAMES, Application, Does, Trial
from .children import running

CLIENTS: Final = {"1.8.0": "kafka-clients 0.9.0.1", "1.9.0": "kafka-clients 2.0.1"}
_AGENT: Final = """
a.sources = in
a.channels = memory
a.sinks = out
a.channels.memory.type = memory
a.sources.in.channels = memory
a.sinks.out.channel = memory
"""
_TO_KAFKA: Final = """
a.sources.in.type = exec
a.sources.in.command = cat {here}/in.log
a.sinks.out.type = org.apache.flume.sink.kafka.KafkaSink
a.sinks.out.kafka.topic = {topic}
a.sinks.out.kafka.bootstrap.servers = {bootstrap}
"""
_FROM_KAFKA: Final = """
a.sources.in.type = org.apache.flume.source.kafka.KafkaSource
a.sources.in.kafka.bootstrap.servers = {bootstrap}
a.sources.in.kafka.topics = {topic}
a.sources.in.kafka.consumer.group.id = {topic}
a.sources.in.kafka.consumer.auto.offset.reset = earliest
a.sinks.out.type = file_roll
a.sinks.out.sink.directory = {here}/out
a.sinks.out.sink.rollInterval = 0
"""


def install(version: str) -> Path:
    return packages.maven(
        f"flume-{version}",
        (
            f"org.apache.flume:flume-ng-node:{version}",
            f"org.apache.flume.flume-ng-sinks:flume-ng-kafka-sink:{version}",
            f"org.apache.flume.flume-ng-sources:flume-kafka-source:{version}",
        ),
    )


def produce(trial: Trial) -> str:
    trial.write("in.log", "".join(f"{name}\n" for name in NAMES))
    _run(trial, _TO_KAFKA)
    return ""


def consume(trial: Trial) -> str:
    (trial.directory / "out").mkdir()
    _run(trial, _FROM_KAFKA)
    return _out(trial)


def _out(trial: Trial) -> str:
    files = (trial.directory / "out").iterdir()
    return "".join(file.read_text(errors="replace") for file in files)


def _run(trial: Trial, what: str) -> None:
    known = {"here": trial.directory, "topic": trial.topic, "bootstrap": trial.bootstrap}
    agent = trial.write("agent.properties", (_AGENT + what).format(**known))
    logging = "log4j.rootLogger=INFO,C\nlog4j.appender.C=org.apache.log4j.ConsoleAppender\n"
    layout = "log4j.appender.C.layout=org.apache.log4j.SimpleLayout\n"
    trial.write("log4j.properties", logging + layout)
    path = f"{trial.directory}:{trial.installed}/*"
    program = ("org.apache.flume.node.Application", "-n", "a", "-f", str(agent))
    with running((*JAVA, "-cp", path, *program), trial.log) as process:
        if what == _TO_KAFKA:
            trial.until(trial.arrived, process)
        else:
            trial.until(lambda: all(name in _out(trial) for name in NAMES), process)


def _application(version: str, part: str, does: Does) -> Application:
    return Application(
        name=f"Flume {version}, Kafka {part}",
        comes_from=f"Maven: org.apache.flume {version}",
        client=CLIENTS[version],
        does=does,
        settings=(AS_IT_COMES,),
        install=partial(install, version),
        run=produce if does is Does.PRODUCES else consume,
    )


APPLICATIONS: Final = tuple(
    _application(version, part, does)
    for version, part, does in (
        ("1.8.0", "sink", Does.PRODUCES),
        ("1.8.0", "source", Does.CONSUMES),
        ("1.9.0", "sink", Does.PRODUCES),
    )
)
