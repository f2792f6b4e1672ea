"""Kafka's own tools, from 0.8.2.2 on: each test runs one tool of one version once."""

import re
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from judges import limited
from judges.outcome import Outcome, Verdict
from judges.places import BUILD
from judges.suite import Selection
from tests.clients.install import JAVA
from tests.fetching import once
from tests.fetching import run as installed
from tests.kafka_server import MAVEN_OPTIONS

from . import data
from .tools import TOOLS, Place, Tool

# The oldest version with each kind of request, and the last release whose tools were published.
VERSIONS: Final = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "2.8.2", "4.3.0")
_POM: Final = Path(__file__).parent / "pom.xml"
_LIMIT: Final = 120.0  # seconds a tool
_QUICK: Final = r"0\.10\.2\.2 (VerifiableProducer|VerifiableConsumer)"


class KafkaTools:
    name = "kafka-tools"
    title = "Kafka's own tools"
    version = f"{VERSIONS[0]} to {VERSIONS[-1]}"
    of_old_clients = True

    def __init__(self) -> None:
        self._home = BUILD / self.name

    def prepare(self) -> None:
        """Nothing: each requested version is fetched before its first test."""

    def run(self, selection: Selection) -> Iterator[Outcome]:
        chosen = {
            f"{version} {tool.name}": (version, tool)
            for version in VERSIONS
            for tool in TOOLS
            if tool.since <= _numbers(version) < tool.until
        }
        if selection.quick:
            chosen = {test: what for test, what in chosen.items() if re.fullmatch(_QUICK, test)}
        chosen = {test: what for test, what in chosen.items() if selection.wants(test)}
        for version in dict.fromkeys(version for version, _ in chosen.values()):
            self.fetch(version)
        data.write(selection.bootstrap)
        for test, (version, tool) in chosen.items():
            yield self._ended(test, version, tool, selection)

    def fetch(self, version: str) -> Path:
        """The folder with a version's jars. InstallError: Maven cannot fetch them."""
        with once(self._home / version) as new:
            if new:
                tools = "kafka-tools" if _numbers(version) >= (0, 9) else "kafka-clients"
                scala = "2.13" if _numbers(version) >= (2, 4) else "2.11"
                chosen = (
                    f"-Dtools.version={version}",
                    f"-Dtools.artifact={tools}",
                    f"-Dcore.artifact=kafka_{scala}",
                )
                copied = ("dependency:copy-dependencies", f"-DoutputDirectory={new}")
                maven = ("mvn", "-q", "-B", "-f", str(_POM))
                installed(*maven, *chosen, *copied, environment=MAVEN_OPTIONS)
        return self._home / version

    def _ended(self, test: str, version: str, tool: Tool, selection: Selection) -> Outcome:
        name = re.sub(r"[^\w.]+", "-", test)
        main = main_class(self._home / version, tuple(tool.classes))
        data.make(selection.bootstrap, name)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(tool.file.replace("%s", name))
            file.flush()
            place = Place(_numbers(version), selection.bootstrap, name, file.name)
            path = ("-cp", f"{self._home / version}/*", main)
            log = selection.logs / f"{name}.log"
            command = (*JAVA, *path, *tool.arguments(place))
            enough = (lambda output: not tool.check(output)) if tool.goes_on else None
            ended = limited.run(command, _LIMIT, log, stdin=tool.stdin, enough=enough)
        if tool.makes:
            data.remove(selection.bootstrap, tool.makes)
        wrong = tool.check(ended.output)
        if not wrong and tool.writes:
            there = data.written(selection.bootstrap, name)
            wrong = "" if there == tool.writes else f"{there} of {tool.writes} in the topic"
        if ended.code is None:
            wrong = f"time limit; {wrong}".removesuffix("; ")
        elif ended.code and not wrong:
            wrong = f"ended with {ended.code}: {ended.last_line}"
        if wrong:
            return Outcome(test, Verdict.FAIL, ended.seconds, wrong)
        log.unlink()
        return Outcome(test, Verdict.PASS, ended.seconds)


@cache
def main_class(folder: Path, names: tuple[str, ...]) -> str:
    """The first of these classes in the jars of a version. LookupError: none."""
    for name in names:
        for jar in sorted(folder.glob("kafka*.jar")):
            with zipfile.ZipFile(jar) as archive:
                if f"{name.replace('.', '/')}.class" in archive.NameToInfo:
                    return name
    raise LookupError(f"{folder.name} has none of {', '.join(names)}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
