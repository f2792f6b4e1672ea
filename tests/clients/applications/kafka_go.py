"""Go programs on segmentio/kafka-go: its groups join with JoinGroup 1, which Kafka 4.0.0 refused
and 4.0.1 took again."""

from functools import partial
from pathlib import Path
from typing import Final

from . import packages
from .application import AS_IT_COMES, NAMES, Application, Does, Trial
from .children import finished

MODULE: Final = "github.com/segmentio/kafka-go"
VERSIONS: Final = ("0.4.42", "0.4.51")


def install(version: str) -> Path:
    return packages.go_program("kafka_go", MODULE, f"v{version}")


def run(does: Does, trial: Trial) -> str:
    out = trial.directory / "out.log"
    command = (str(trial.installed / "program"), does.value, trial.bootstrap, trial.topic, *NAMES)
    finished(command, trial.log, trial.seconds, out=out)
    return out.read_text(errors="replace")


def _application(version: str, does: Does) -> Application:
    return Application(
        name=f"kafka-go {version}, {does.value}",
        comes_from=f"Go: {MODULE} {version}",
        client=f"kafka-go {version}",
        does=does,
        settings=(AS_IT_COMES,),
        install=partial(install, version),
        run=partial(run, does),
    )


APPLICATIONS: Final = tuple(
    _application(version, does) for version in VERSIONS for does in (Does.PRODUCES, Does.CONSUMES)
)
