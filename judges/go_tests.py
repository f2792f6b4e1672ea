"""Test programs of Go: a module's source, runs of single tests, and what they say, test by test."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fetching import run as installed

from . import limited
from .outcome import Outcome, Verdict
from .suite import Asked

_TEST: Final = re.compile(r"^func (Test\w+)\(.*?^}", re.M | re.S)

# Also after other output of a test that ended without a line feed.
_END: Final = re.compile(r"( *)--- (PASS|FAIL|SKIP): (\S+) \((\d+\.\d+)s\)$", re.M)
_RUN: Final = re.compile(r"^=== RUN\s+(\S+)$", re.M)
_SAID: Final = re.compile(r"^    +(\S+\.go:\d+: .*)$", re.M)
_TIDYING: Final = re.compile(
    r"panic\.go|(?i:deleting (topic|group))|completed in|Leaving group"
)  # says nothing of the reason
_MACHINE: Final = re.compile(r"(?<=\.test)@[\w.-]+")  # in the names that clients give themselves
_INDENT: Final = 4  # of each further test in a test


@dataclass(frozen=True, slots=True)
class _End:
    verdict: str
    seconds: float
    indent: int


def fetch(module: str, source: Path) -> None:
    """The files of a module, `path@version`, in a new folder. InstallError: there is none."""
    fetched = json.loads(installed("go", "mod", "download", "-json", module))
    shutil.copytree(fetched["Dir"], source)
    for path in (source, *source.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)  # the module cache is read-only


def tests_with(pattern: re.Pattern[str], package: Path, files: str) -> list[str]:
    """The names of the tests in those files of a package whose source has the pattern."""
    return [
        test[1]
        for path in sorted(package.glob(files))
        for test in _TEST.finditer(path.read_text())
        if pattern.search(test[0])
    ]


def run(
    program: Path,
    test: str,
    asked: Asked,
    environment: Mapping[str, str],
    seconds: float,
    without: str = "^$",
) -> list[Outcome]:
    """Runs one test, with those in it but `without`, for so many seconds at most. Its log stays if
    it fails."""
    log = asked.logs / f"{test}.log"
    command = (str(program), "-test.v", "-test.run", f"^{test}$", "-test.skip", without)
    ended = limited.run(command, seconds, log, environment=environment, cwd=program.parent)
    outcomes = list(ends(ended.said, "time limit" if ended.code is None else ended.last_line))
    if all(outcome.verdict is not Verdict.FAIL for outcome in outcomes):
        log.unlink()
    return outcomes


def ends(said: str, ended_by: str) -> Iterator[Outcome]:
    """How the tests of `-test.v` ended. A test with others in it is counted by those, unless it
    failed while none of them did. Tests without an end failed as `ended_by` says."""
    found = {
        name: _End(verdict, float(seconds), len(indent))
        for indent, verdict, name, seconds in _END.findall(said)
    }
    for name in _RUN.findall(said):
        found.setdefault(name, _End("LOST", 0.0, _INDENT if "/" in name else 0))
    for name, end in found.items():
        within = [
            other.verdict
            for named, other in found.items()
            # A test's name may have a slash of its own, and so seem to be in another.
            if named.startswith(f"{name}/") and other.indent > end.indent
        ]
        if within and (end.verdict in ("PASS", "SKIP") or {"FAIL", "LOST"} & set(within)):
            continue
        if end.verdict == "LOST":
            yield Outcome(name, Verdict.FAIL, end.seconds, ended_by)
        elif end.verdict == "PASS":
            yield Outcome(name, Verdict.PASS, end.seconds)
        else:
            said_of_it = _reason(said, name, end.verdict)
            yield Outcome(name, Verdict(end.verdict.lower()), end.seconds, said_of_it)


def _reason(said: str, name: str, verdict: str) -> str:
    """The last that a test said of its own before its end, or after it as older releases do."""
    at = said.index(f"--- {verdict}: {name} (")
    before = said[:at].rpartition(f"=== RUN   {name}\n")[2]
    after = re.match(r".*\n((?:    +\S+\.go:\d+: .*\n)*)", said[at:])
    lines = _SAID.findall(after[1] if after else "") or _SAID.findall(before)
    lines = [line for line in lines if not _TIDYING.search(line)]
    return _MACHINE.sub("", lines[-1]) if lines else ""
