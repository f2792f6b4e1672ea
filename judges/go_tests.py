"""Suites written in Go: fetching a module, building its test program, running and reading tests."""

import json
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fetching import once
from tests.fetching import run as installed

from . import limited
from .outcome import Outcome, Verdict
from .places import BUILD
from .suite import Selection

_TEST: Final = re.compile(r"^func (Test\w+)\(.*?^}", re.M | re.S)

# This may follow other output on the same line, if that output had no line feed.
_END: Final = re.compile(r"( *)--- (PASS|FAIL|SKIP): (\S+) \((\d+\.\d+)s\)$", re.M)
_RUN: Final = re.compile(r"^=== RUN\s+(\S+)$", re.M)
_LOGGED: Final = re.compile(r"^    +(\S+\.go:\d+: .*)$", re.M)
_TIDYING: Final = re.compile(
    r"panic\.go|(?i:deleting (topic|group))|completed in|Leaving group"
)  # lines that do not give the reason of a failure
_MACHINE: Final = re.compile(r"(?<=\.test)@[\w.-]+")  # in the names that clients give themselves
_INDENT: Final = 4  # spaces before each subtest, for each level


@dataclass(frozen=True, slots=True)
class _End:
    verdict: str
    seconds: float
    indent: int


class GoSuite(ABC):
    """The tests of one Go module, built once into a test program."""

    name: str
    title: str
    version: str
    of_old_clients = False
    module: str  # the path of the module, without its version
    build: tuple[str, ...]  # arguments of `go test -c`

    @property
    def source(self) -> Path:
        """The folder of the module's files, in which the program is built."""
        return BUILD / f"{self.name}-{self.version}" / "source"

    def prepare(self) -> None:
        """Fetches the module, patches it and builds its test program, unless that is done."""
        with once(self.source.parent) as new:
            if new:
                source = new / self.source.name
                _fetch(f"{self.module}@v{self.version}", source)
                self.patch(source)
                installed("go", "test", "-c", *self.build, cwd=source)

    def patch(self, source: Path) -> None:  # noqa: B027  (a suite with an option needs no patch)
        """Makes the tests use the judged broker."""

    @abstractmethod
    def run(self, selection: Selection) -> Iterator[Outcome]:
        """See `Suite.run`."""


def _fetch(module: str, source: Path) -> None:
    """Copies the files of a module, `path@version`, to a new folder. InstallError: it fails."""
    fetched = json.loads(installed("go", "mod", "download", "-json", module))
    shutil.copytree(fetched["Dir"], source)
    for path in (source, *source.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)  # the module cache is read-only


def tests_with(pattern: re.Pattern[str], package: Path, files: str) -> list[str]:
    """The names of the tests whose source has the pattern, in these files of a package."""
    return [
        test[1]
        for path in sorted(package.glob(files))
        for test in _TEST.finditer(path.read_text())
        if pattern.search(test[0])
    ]


def run(
    program: Path,
    test: str,
    selection: Selection,
    environment: Mapping[str, str],
    seconds: float,
    without: str = "^$",
) -> list[Outcome]:
    """Runs one test and its subtests except `without`, for `seconds` at most. The log of a failed
    test is kept."""
    log = selection.logs / f"{test}.log"
    command = (str(program), "-test.v", "-test.run", f"^{test}$", "-test.skip", without)
    ended = limited.run(command, seconds, log, environment=environment, cwd=program.parent)
    outcomes = list(ends(ended.output, "time limit" if ended.code is None else ended.last_line))
    if all(outcome.verdict is not Verdict.FAIL for outcome in outcomes):
        log.unlink()
    return outcomes


def ends(output: str, ended_by: str) -> Iterator[Outcome]:
    """The outcomes in the output of `-test.v`. A test with subtests is counted by those, unless it
    failed and none of them did. A test without an end failed for the reason `ended_by`."""
    found = {
        name: _End(verdict, float(seconds), len(indent))
        for indent, verdict, name, seconds in _END.findall(output)
    }
    for name in _RUN.findall(output):
        found.setdefault(name, _End("LOST", 0.0, _INDENT if "/" in name else 0))
    for name, end in found.items():
        within = [
            other.verdict
            for named, other in found.items()
            # A test's name may contain a slash without being a subtest.
            if named.startswith(f"{name}/") and other.indent > end.indent
        ]
        if within and (end.verdict in ("PASS", "SKIP") or {"FAIL", "LOST"} & set(within)):
            continue
        if end.verdict == "LOST":
            yield Outcome(name, Verdict.FAIL, end.seconds, ended_by)
        elif end.verdict == "PASS":
            yield Outcome(name, Verdict.PASS, end.seconds)
        else:
            reason = _reason(output, name, end.verdict)
            yield Outcome(name, Verdict(end.verdict.lower()), end.seconds, reason)


def _reason(output: str, name: str, verdict: str) -> str:
    """The last line that a test logged, before its end or, in older releases of Go, after it."""
    at = output.index(f"--- {verdict}: {name} (")
    before = output[:at].rpartition(f"=== RUN   {name}\n")[2]
    after = re.match(r".*\n((?:    +\S+\.go:\d+: .*\n)*)", output[at:])
    lines = _LOGGED.findall(after[1] if after else "") or _LOGGED.findall(before)
    lines = [line for line in lines if not _TIDYING.search(line)]
    return _MACHINE.sub("", lines[-1]) if lines else ""
