"""kcat (kafkacat), as scripts use it: a line a record.

Not here: librdkafka itself, version by version (tests/clients/programs/c)."""

from pathlib import Path
from typing import Final

from . import packages
from .application import AS_IT_COMES, NAMES, Application, Does, Setting, Trial
from .children import finished

PACKAGES: Final = ("kcat", "libyajl2", "librdkafka1")
OLDER: Final = ("1.6.0", "1.7.0", "1.8.2")
PINNED: Final = Setting(
    "`-X broker.version.fallback=0.9.0.1 -X api.version.request=false`",
    {"options": "-X broker.version.fallback=0.9.0.1 -X api.version.request=false"},
)


def install() -> Path:
    return packages.debian(*PACKAGES)


def produce(trial: Trial) -> str:
    lines = trial.write("in.log", "".join(f"{name}\n" for name in NAMES))
    _run(trial, "-P", "-l", str(lines))
    return ""


def consume(trial: Trial) -> str:
    _run(trial, "-C", "-e", "-o", "beginning")
    return (trial.directory / "out.log").read_text(errors="replace")


def _run(trial: Trial, *options: str) -> None:
    root = trial.installed
    where = ("-b", trial.bootstrap, "-t", trial.topic)
    given = trial.setting.values.get("options", "").split()
    older = trial.setting.values.get("librdkafka")
    libraries = packages.of_debian(root, *([packages.librdkafka(older)] if older else []))
    finished(
        (str(root / "usr/bin/kcat"), *where, *given, *options),
        trial.log,
        trial.seconds,
        out=trial.directory / "out.log",
        environment=libraries,
    )


def _with(version: str) -> Setting:
    return Setting(f"with librdkafka {version}", {"librdkafka": version})


def _application(does: Does) -> Application:
    return Application(
        name=f"kcat, {does.value}",
        comes_from="Debian: kcat 1.7.1; older librdkafka from PyPI: confluent-kafka",
        client="librdkafka 2.0.2",
        does=does,
        settings=(AS_IT_COMES, PINNED, *map(_with, OLDER)),
        install=install,
        run=produce if does is Does.PRODUCES else consume,
    )


APPLICATIONS: Final = (_application(Does.PRODUCES), _application(Does.CONSUMES))
