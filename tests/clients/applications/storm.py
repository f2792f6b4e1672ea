"""Storm's spouts, in a local cluster with a bolt that prints: the old one, of storm-kafka, which
asks brokers by itself, and that of storm-kafka-client, which is a consumer of a group.

A topology brings the client: those that Storm's own build names, and a newer one."""

from functools import partial
from pathlib import Path
from typing import Final

from tests.clients.install import JAVA

from . import packages
from .application import AS_IT_COMES, Application, Does, Trial
from .children import running

STORM: Final = "1.2.2"  # the ZooKeeper inside later ones does not start on a JDK after 13
# The module of a spout, our program, the client that the topology brings.
SPOUTS: Final = (
    ("storm-kafka", "StormOld", "org.apache.kafka:kafka_2.11:0.8.2.1"),
    ("storm-kafka-client", "StormNew", "org.apache.kafka:kafka-clients:0.10.1.0"),
    ("storm-kafka-client", "StormNew", "org.apache.kafka:kafka-clients:2.8.2"),
)
# A dependency of its pages, which are not needed here. Maven Central does not have it.
ELSEWHERE: Final = ("ring-cors:ring-cors",)


def install(spout: str, program: str, client: str) -> Path:
    wanted = (f"org.apache.storm:storm-core:{STORM}", f"org.apache.storm:{spout}:{STORM}", client)
    return packages.maven(f"{spout}-{STORM}", wanted, program, ELSEWHERE)


def run(program: str, trial: Trial) -> str:
    """The topology's output stands among Storm's own."""
    path = ("-cp", f"{trial.installed}:{trial.installed}/*")
    command = (*JAVA, *packages.OPENED, *path, program, trial.bootstrap, trial.topic)
    with running(command, trial.log) as process:
        trial.until(lambda: trial.has_all(trial.log), process)
    return trial.log.read_text(errors="replace")


def _name(client: str) -> str:
    _, artifact, version = client.split(":")
    return f"{artifact.partition('_')[0]} {version}"


APPLICATIONS: Final = tuple(
    Application(
        name=f"Storm {STORM}, spout of {spout} with {_name(client)}",
        comes_from=f"Maven: org.apache.storm:{spout} {STORM}",
        client=_name(client),
        does=Does.CONSUMES,
        settings=(AS_IT_COMES,),
        install=partial(install, spout, program, client),
        run=partial(run, program),
    )
    for spout, program, client in SPOUTS
)
