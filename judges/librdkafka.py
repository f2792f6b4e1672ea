"""librdkafka's tests, from Rust's bindings. They run as a current client, and as a client of 0.9
that does not request the broker's versions.

Each test is a process of its own with its number, in the suite's quick mode. Tests are left out if
they need no broker, a library between sockets (`-E`), or a broker with another setup."""

import json
import re
import shutil
from collections.abc import Iterator
from typing import Final

from tests.fetching import once
from tests.fetching import run as installed

from . import limited
from .outcome import Outcome, Verdict
from .places import BUILD
from .suite import Selection

_BINDINGS: Final = "4.10.0+2.12.1"  # the version of rdkafka-sys, and of the library in it
_LIMIT: Final = 300.0  # seconds a test
_OLD: Final = {"api.version.request": "false", "broker.version.fallback": "0.9.0.1"}
_QUICK: Final = ("0001_multiobj", "0011_produce_batch", "0021_rkt_destroy")
_ENTRY: Final = re.compile(r"^ {4}_TEST\((\w+)\s*,(.*?)\),$", re.M | re.S)
_ELSEWHERE: Final = re.compile(r"TEST_F_(LOCAL|MANUAL|SOCKEM)\b|\.scenario")
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_VERDICTS: Final = {
    "PASSED": Verdict.PASS,
    "SKIPPED": Verdict.SKIP,
    "DNS": Verdict.SKIP,  # not started, because the broker's version does not fit
}


class Librdkafka:
    version = _BINDINGS.rpartition("+")[2]

    def __init__(self, name: str, title: str, of_old_clients: bool) -> None:
        self.name = name
        self.title = title
        self.of_old_clients = of_old_clients
        self._home = BUILD / f"librdkafka-{self.version}"
        self._tests = self._home / "source" / "tests"

    def prepare(self) -> None:
        with once(self._home) as new:
            if new:
                (new / "src").mkdir()
                (new / "src" / "lib.rs").touch()
                (new / "Cargo.toml").write_text(
                    '[package]\nname = "fetched"\nversion = "0.1.0"\nedition = "2021"\n'
                    f'[workspace]\n[dependencies.rdkafka-sys]\nversion = "={_BINDINGS}"\n'
                    "default-features = false\n"
                )
                installed("cargo", "vendor", "--quiet", "vendor", cwd=new)
                source = new / "source"
                (new / "vendor" / "rdkafka-sys" / "librdkafka").rename(source)
                shutil.rmtree(new / "vendor")
                without = ("--disable-gssapi", "--disable-ssl", "--disable-sasl", "--disable-curl")
                installed("bash", "./configure", *without, cwd=source)
                installed("make", "-j2", "libs", cwd=source)
                installed("make", "-j2", "-C", "tests", "build", cwd=source)

    def run(self, selection: Selection) -> Iterator[Outcome]:
        for test in tests_with_a_broker((self._tests / "test.c").read_text()):
            if selection.wants(test) and (test in _QUICK or not selection.quick):
                yield self._ended(test, selection)

    def _ended(self, test: str, selection: Selection) -> Outcome:
        log, report = selection.logs / f"{test}.log", selection.logs / f"{test}.json"
        settings = {
            "metadata.broker.list": selection.bootstrap,
            "test.topic.random": "true",
            "test.timeout.multiplier": "3",  # for a busy machine
        }
        settings |= _OLD if self.of_old_clients else {}
        conf = selection.logs / "test.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        version = _OLD["broker.version.fallback"] if self.of_old_clients else selection.target.kafka
        environment = {
            "RDKAFKA_TEST_CONF": str(conf),
            "TEST_KAFKA_VERSION": version,
            "TEST_REPORT": str(report),
            "LD_LIBRARY_PATH": "../src:../src-cpp",
        }
        command = ("./test-runner", "-L", "-Q", "-p1", "-E", test)
        ended = limited.run(command, _LIMIT, log, environment=environment, cwd=self._tests)
        if ended.code is None:
            return Outcome(test, Verdict.FAIL, ended.seconds, "time limit")
        if not report.exists():
            return Outcome(test, Verdict.FAIL, ended.seconds, f"ended with {ended.code}")
        outcome = reported(report.read_text(), test, ended)
        report.unlink()
        if outcome.verdict is not Verdict.FAIL:
            log.unlink()
        return outcome


def tests_with_a_broker(source: str) -> list[str]:
    """The tests in test.c that need a broker with the usual setup."""
    entries = _ENTRY.findall(source)
    return [name for name, rest in entries if name[0] == "0" and not _ELSEWHERE.search(rest)]


def reported(report: str, test: str, ended: limited.Ended) -> Outcome:
    """A test's outcome, from its report; the reason, from the program's output."""
    found = json.loads(report)["tests"].get(test)
    state = found["state"] if found else "DNS"
    verdict = _VERDICTS.get(state, Verdict.FAIL)
    if verdict is Verdict.PASS:
        return Outcome(test, verdict, ended.seconds)
    lines = [line.strip() for line in _ANSI.sub("", ended.output).splitlines()]
    failed = [at for at, line in enumerate(lines) if line.startswith(f'### Test "{test}"')]
    if verdict is Verdict.FAIL and failed and failed[0] + 1 < len(lines):
        reason = lines[failed[0] + 1].removeprefix(f"{test}#")  # the client, and the reason
        return Outcome(test, verdict, ended.seconds, reason)
    row = rf"\|\s*{test}\s*\|\s*\w+\s*\|\s*[\d.]+s\s*\|\s*(\S.*)"
    rows = [match[1] for match in (re.match(row, line) for line in lines) if match]
    return Outcome(test, verdict, ended.seconds, rows[-1] if rows else state)
