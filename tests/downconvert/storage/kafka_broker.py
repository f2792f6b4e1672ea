"""A broker of Kafka 3.9.1 as judge: its DumpLogSegments, and how it loads a log after a crash.

Java, javac and Maven are needed, and a network the first time, for the broker's classes
(kafka_server.py). Where they are not there, the tests that ask it are not collected (conftest.py),
unless REQUIRE_JAVA is set: then they fail.

Not here: what the judge does (kafka/Judge.java), what is put before it (test_kafka_accepts.py)."""

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests import kafka_server

HOME: Final = Path(__file__).parent / "kafka"
CLASSES: Final = kafka_server.BUILD / "kafka-judge"
TOOLS: Final = ("java", "javac", "mvn")
REQUIRED: Final = kafka_server.REQUIRED
# Its log lines would count as complaints.
SILENT: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The broker's description of a partition's directory."""

    complaints: str  # of its dump; none: empty
    start: int
    end: int
    last_stable: int
    bytes_cut: int
    aborted: str  # `producer:first-last` of each transaction


def missing() -> list[str]:
    """The tools that are not here."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def judge(directories: Iterable[Path]) -> dict[str, Verdict]:
    """By the directories' names. They are changed, as a broker changes what it recovers."""
    command = ("java", *kafka_server.QUICK, SILENT, "-cp", _classpath(), "Judge")
    output = _run(*command, *map(str, directories))
    verdicts = {}
    for line in output.splitlines():
        name, complaints, *found = line.split("\t")
        assert len(found) == 6, f"{name}: {found}"
        start, end, last_stable, before, after = map(int, found[:5])
        verdicts[name] = Verdict(complaints, start, end, last_stable, before - after, found[5])
    return verdicts


def _classpath() -> str:
    libraries, source = kafka_server.prepare(kafka_server.OLD), HOME / "Judge.java"
    compiled = CLASSES / "Judge.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        _run(*kafka_server.COMPILER, "-cp", libraries, "-d", str(CLASSES), str(source))
    return f"{CLASSES}:{libraries}"


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
    return done.stdout
