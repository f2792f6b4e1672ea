"""Kafka 3.9.1's own record classes in a warm JVM, one round at a time.

This needs Java and Maven, and a network the first time: Maven fetches the classes into
`build/kafka`. The JVM inherits the core to which this process is pinned, and is idle between
rounds."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, Self

from bench.measuring.rounds import Fetch, Round

HOME: Final = Path(__file__).parent / "kafka"
CACHE: Final = Path(__file__).parents[2] / "build" / "kafka"
SOURCE: Final = HOME / "Conversion.java"

# The fastest options on one core, which the JVM shares with its collector and its compiler: 5-8 %
# faster than those of Kafka's start script (G1, 1 GB).
JVM_OPTIONS: Final = ("-Xms1G", "-Xmx1G", "-Xmn600M", "-XX:+UseSerialGC", "-server")


class UnavailableError(Exception):
    """Kafka's classes cannot run here. The text has the reason."""


def class_path() -> str:
    """The class path of Kafka's classes, which are fetched and compiled once. UnavailableError:
    that is not possible."""
    for tool in ("java", "javac"):
        if shutil.which(tool) is None:
            raise UnavailableError(f"there is no {tool} (a JDK of 17 or later)")
    libraries, classes = CACHE / "lib", CACHE / "classes"
    if not any(libraries.glob("kafka-clients-*.jar")):
        if shutil.which("mvn") is None:
            raise UnavailableError("there is no mvn (Maven), which fetches Kafka's classes")
        _run(
            *("mvn", "-q", "-B", "-f", str(HOME / "pom.xml"), "dependency:copy-dependencies"),
            f"-DoutputDirectory={libraries}",
        )
    compiled = classes / "Conversion.class"
    if not compiled.exists() or compiled.stat().st_mtime < SOURCE.stat().st_mtime:
        _run("javac", "-cp", f"{libraries}/*", "-d", str(classes), str(SOURCE))
    return f"{classes}:{libraries}/*"


def _run(*command: str) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        summary = (finished.stdout + finished.stderr).strip().splitlines() or ["nothing"]
        raise UnavailableError(f"{command[0]} failed and said: {summary[0]}")


class KafkaJvm:
    """A JVM that converts the fetches of one segment, lazily or eagerly."""

    def __init__(
        self,
        how: Literal["lazy", "eager"],
        to_magic: int,
        segment: Path,
        fetches: Sequence[Fetch],
        *,
        options: Sequence[str] = JVM_OPTIONS,
    ) -> None:
        self._process = subprocess.Popen(
            ("java", *options, "-cp", class_path(), "Conversion", how, str(to_magic), str(segment)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for fetch in fetches:
            self._tell(" ".join(map(str, fetch)))
        self._tell("")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def round(self) -> Round:
        return self._ask("round")

    def checked_round(self) -> Round:
        """A round with a CRC of all sent bytes."""
        return self._ask("check")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")

    def _ask(self, command: str) -> Round:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        before = self._cpu_seconds()
        self._tell(command)
        self._process.stdin.flush()
        response = self._process.stdout.readline()
        if not response:
            raise UnavailableError("the JVM ended; what it said is above")
        return Round(cpu_seconds=self._cpu_seconds() - before, **json.loads(response))

    def _cpu_seconds(self) -> float:
        """CPU seconds of all threads, because the collector and the compiler share the core."""
        nanoseconds = 0
        for thread in Path(f"/proc/{self._process.pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # the thread has ended
                nanoseconds += int(thread.read_text().split()[0])
        return nanoseconds / 1e9
