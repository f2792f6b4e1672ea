"""Logstash's input for Kafka: the client that each major version of the plugin brings, with the
settings that the plugin gives it.

Logstash itself is not run. Its plugin uses the Java client. The client's version and settings are
in the plugin's source.

Not here: versions 1 and 2 of the plugin, whose client of 0.8 finds brokers in their ZooKeeper."""

from functools import partial
from pathlib import Path
from typing import Final

from tests.clients.install import JAVA

from . import packages
from .application import AS_IT_COMES, Application, Does, Trial
from .children import running

# By version of the plugin: that of its client, and what it sets beside the others.
PLUGINS: Final = {
    "4.2.0": ("0.9.0.1", {"auto.commit.interval.ms": "10", "session.timeout.ms": "30000"}),
    "5.1.11": ("0.10.0.1", {}),
    "7.0.0": ("0.11.0.0", {}),
    "8.3.1": ("2.1.0", {}),
}
_STRINGS: Final = "org.apache.kafka.common.serialization.StringDeserializer"
_SETTINGS: Final = {
    "auto.commit.interval.ms": "5000",
    "client.id": "logstash-0",
    "enable.auto.commit": "true",
    "key.deserializer": _STRINGS,
    "value.deserializer": _STRINGS,
    "auto.offset.reset": "earliest",  # this one is a user's
}


def install(version: str) -> Path:
    client, _ = PLUGINS[version]
    wanted = (f"org.apache.kafka:kafka-clients:{client}", "org.slf4j:slf4j-simple:1.7.36")
    return packages.maven(f"logstash-input-{version}", wanted, "LogstashInput")


def run(version: str, trial: Trial) -> str:
    _, own = PLUGINS[version]
    asked = {"bootstrap.servers": trial.bootstrap, "group.id": trial.topic}
    lines = (f"{name}={value}\n" for name, value in (_SETTINGS | own | asked).items())
    settings = trial.write("consumer.properties", "".join(lines))
    out = trial.directory / "out.log"
    path = ("-cp", f"{trial.installed}:{trial.installed}/*")
    command = (*JAVA, *path, "LogstashInput", str(settings), trial.topic)
    with running(command, trial.log, out=out) as process:
        trial.until(lambda: trial.has_all(out), process)
    return out.read_text(errors="replace")


APPLICATIONS: Final = tuple(
    Application(
        name=f"Logstash's input {version}, its client alone",
        comes_from=f"Maven: org.apache.kafka:kafka-clients {client}, with the plugin's settings",
        client=f"kafka-clients {client}",
        does=Does.CONSUMES,
        settings=(AS_IT_COMES,),
        install=partial(install, version),
        run=partial(run, version),
    )
    for version, (client, _) in PLUGINS.items()
)
