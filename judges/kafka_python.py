"""kafka-python's integration tests from its sdist: producers, consumers, groups, admin requests and
transactions, each for the broker versions that support them.

The sdist lacks two files that the tests need: `test/__init__.py`, which is empty, and
`test/service.py`, which starts brokers. No broker is started here, so the two names that tests
import from it are in stand_ins/. Tests with brokers of their own, for TLS and SASL, are left
out."""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.fetching import InstallError, once
from tests.fetching import run as installed

from . import limited
from .outcome import Outcome, Verdict
from .places import BUILD
from .suite import Selection

_STAND_IN: Final = Path(__file__).parent / "stand_ins" / "service.py"
_LIMIT: Final = 60  # seconds a test, by pytest-timeout
_ALL_LIMIT: Final = 1800.0
_BESIDE: Final = ("py==1.11.0", "pytest-mock==3.14.0")
_PYTEST: Final = (
    *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
    *("--deselect", "test/integration/test_ssl_integration.py"),
    *("--deselect", "test/integration/test_sasl_integration.py"),
)
_TESTS: Final = "test/integration"
_QUICK: Final = (
    "test_consumer_integration.test_kafka_consumer",
    "test_producer_integration.test_end_to_end[gzip]",
    "test_producer_integration.test_transactional_producer_messages",
)


class KafkaPython:
    """`answering_as`: the broker version that the client is given; if empty, the target's."""

    of_old_clients = False
    version = "3.0.12"

    def __init__(self, name: str, title: str, answering_as: str = "") -> None:
        self.name = name
        self.title = title
        self.of_old_clients = bool(answering_as)
        self._answering_as = answering_as
        self._home = BUILD / f"kafka-python-{self.version}"

    def prepare(self) -> None:
        with once(self._home) as new:
            if new:
                pip = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")
                package = f"kafka-python=={self.version}"
                sdist = ("download", "--no-deps", "--no-binary", ":all:", "-d", str(new))
                installed(*pip, *sdist, package)
                for archive in new.glob("*.tar.gz"):
                    shutil.unpack_archive(archive, new, filter="data")
                found = [path.parent for path in new.glob("*/test")]
                if len(found) != 1:
                    raise InstallError(f"{package}: its sdist has no tests")
                found[0].rename(new / "source")
                shutil.copy(_STAND_IN, new / "source" / "test")
                (new / "source" / "test" / "__init__.py").touch()
                installed(*pip, "install", "--no-deps", "--target", str(new / "beside"), *_BESIDE)

    def run(self, selection: Selection) -> Iterator[Outcome]:
        source = self._home / "source"
        environment = {
            "KAFKA_ROOT": str(source),  # nothing in it is started
            "KAFKA_VERSION": self._answering_as
            or selection.target.inferred
            or selection.target.kafka,
            "KAFKA_URI": f"kafka://{selection.bootstrap}",
            "PYTHONPATH": f"{source}:{self._home / 'beside'}",
        }
        results, log = selection.logs / "results.xml", selection.logs / "pytest.log"
        listed = installed(*_PYTEST, _TESTS, "--collect-only", cwd=source, environment=environment)
        chosen = [
            line for line in listed.splitlines() if "::" in line and selection.wants(_name(line))
        ]
        if selection.quick:
            chosen = [line for line in chosen if _name(line) in _QUICK]
        if not chosen:
            return
        limits = (f"--timeout={_LIMIT}", "--timeout-method=signal")
        command = (*_PYTEST, *limits, f"--junitxml={results}", *chosen)
        ended = limited.run(command, _ALL_LIMIT, log, cwd=source, environment=environment)
        if not results.exists():
            why = "time limit" if ended.code is None else ended.last_line
            for test in chosen:
                yield Outcome(_name(test), Verdict.FAIL, ended.seconds, why)
            return
        yield from outcomes(results.read_text())


def _name(test: str) -> str:
    """A test's name in the report, from its name in pytest's list."""
    file, *within = test.split("::")
    return ".".join((within[:-1] or [Path(file).stem]) + within[-1:])


def outcomes(junit: str) -> list[Outcome]:
    """The outcomes in pytest's JUnit report. A test that fails twice, in its body and in its
    teardown, counts once."""
    found: dict[str, Outcome] = {}
    for case in ElementTree.fromstring(junit).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
        seconds = float(case.get("time", "0"))
        failed = next(
            (case.find(tag) for tag in ("failure", "error") if case.find(tag) is not None), None
        )
        skipped = case.find("skipped")
        if failed is not None:
            found[name] = Outcome(name, Verdict.FAIL, seconds, _first_line(failed))
        elif skipped is not None:
            found.setdefault(name, Outcome(name, Verdict.SKIP, seconds, _first_line(skipped)))
        else:
            found.setdefault(name, Outcome(name, Verdict.PASS, seconds))
    return list(found.values())


def _first_line(element: ElementTree.Element) -> str:
    lines = element.get("message", "").strip().splitlines()
    return re.sub(r"0x[0-9a-f]+", "0x…", lines[0].strip()) if lines else ""
