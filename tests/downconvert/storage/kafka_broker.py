"""A broker of Kafka 3.9.1 as judge: its DumpLogSegments, and how it loads a log after a crash.

Java, javac and Maven are needed, and a network the first time: Maven fetches the broker's classes
into `build/kafka-broker`. Where they are not there, the tests that ask it are not collected
(conftest.py), unless REQUIRE_JAVA is set: then they fail.

Not here: what the judge does (kafka/Judge.java), what is put before it (test_kafka_accepts.py)."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOME: Final = Path(__file__).parent / "kafka"
CACHE: Final = Path(__file__).parents[3] / "build" / "kafka-broker"
TOOLS: Final = ("java", "javac", "mvn")
REQUIRED: Final = os.environ.get("REQUIRE_JAVA", "") not in ("", "0")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the broker said of a partition's directory."""

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
    classes, libraries = _prepare()
    command = ("java", "-Xmx512M", "-cp", f"{classes}:{libraries}/*", "Judge")
    said = _run(*command, *map(str, directories))
    verdicts = {}
    for line in said.splitlines():
        name, complaints, *found = line.split("\t")
        assert len(found) == 6, f"{name}: {found}"
        start, end, last_stable, before, after = map(int, found[:5])
        verdicts[name] = Verdict(complaints, start, end, last_stable, before - after, found[5])
    return verdicts


def _prepare() -> tuple[Path, Path]:
    assert not missing(), f"not here: {', '.join(missing())}"
    libraries, classes, source = CACHE / "lib", CACHE / "classes", HOME / "Judge.java"
    if not any(libraries.glob("kafka_2.13-*.jar")):
        pom, target = str(HOME / "pom.xml"), f"-DoutputDirectory={libraries}"
        _run("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", target)
    compiled = classes / "Judge.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        _run("javac", "-cp", f"{libraries}/*", "-d", str(classes), str(source))
    return classes, libraries


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
    return done.stdout
