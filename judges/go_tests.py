"""Test programs that `go test -c` builds: what they say, test by test."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .outcome import Outcome, Verdict

# Also after other output of a test that ended without a line feed.
_END: Final = re.compile(r"( *)--- (PASS|FAIL|SKIP): (\S+) \((\d+\.\d+)s\)$", re.M)
_RUN: Final = re.compile(r"^=== RUN\s+(\S+)$", re.M)
_SAID: Final = re.compile(r"^    +(\S+\.go:\d+: .*)$", re.M)
_TIDYING: Final = re.compile(
    r"panic\.go|(?i:deleting (topic|group))|completed in"
)  # says nothing of the reason
_INDENT: Final = 4  # of each further test in a test


@dataclass(frozen=True, slots=True)
class _End:
    verdict: str
    seconds: float
    indent: int


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
    return lines[-1] if lines else ""
