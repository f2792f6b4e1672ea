"""Storm's spouts, in a local cluster with a bolt that prints: the old one, of storm-kafka, which
asks brokers by itself, and that of storm-kafka-client, which is a consumer of a group.

A topology brings the client; these are the ones that Storm's own build names."""

from functools import partial
from pathlib import Path
from typing import Final

from tests.clients.install import JAVA

from . import packages
from .application import AS_IT_COMES, Application, Does, Trial
from .children import running

STORM: Final = "1.2.2"  # the ZooKeeper inside later ones does not start on a JDK after 13
SPOUTS: Final = {
    "storm-kafka": ("StormOld", "org.apache.kafka:kafka_2.11:0.8.2.1"),
    "storm-kafka-client": ("StormNew", "org.apache.kafka:kafka-clients:0.10.1.0"),
}
# Of its pages, which nobody looks at here; they are in another registry than Maven Central.
ELSEWHERE: Final = ("ring-cors:ring-cors",)


def install(spout: str) -> Path:
    program, client = SPOUTS[spout]
    wanted = (f"org.apache.storm:storm-core:{STORM}", f"org.apache.storm:{spout}:{STORM}", client)
    return packages.maven(f"{spout}-{STORM}", wanted, program, ELSEWHERE)


def run(spout: str, trial: Trial) -> str:
    program, _ = SPOUTS[spout]
    out = trial.directory / "out.log"
    path = ("-cp", f"{trial.installed}:{trial.installed}/*")
    with running(
        (*JAVA, *packages.OPENED, *path, program, trial.bootstrap, trial.topic),
        trial.said,
        out=out,
    ) as process:
        trial.until(lambda: trial.has_all(out), process)
    return out.read_text(errors="replace")


APPLICATIONS: Final = tuple(
    Application(
        name=f"Storm {STORM}, spout of {spout}",
        comes_from=f"Maven: org.apache.storm:{spout} {STORM}",
        client=client.partition(":")[2].replace(":", " ").replace("kafka_2.11", "kafka"),
        does=Does.CONSUMES,
        settings=(AS_IT_COMES,),
        install=partial(install, spout),
        run=partial(run, spout),
    )
    for spout, (_, client) in SPOUTS.items()
)
