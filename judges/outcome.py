"""The outcome of a test, and all outcomes of a suite on a target in their stored form."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from .places import BUILD


class Verdict(StrEnum):
    """A skipped test was skipped by its own suite, because it does not fit this broker."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a test. `seconds` of wall clock; `output`: its last output if it did not
    pass."""

    test: str
    verdict: Verdict
    seconds: float = 0.0
    output: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """A suite on a target: date, command, and the outcome of every test."""

    suite: str
    target: str
    version: str
    command: str
    date: str
    outcomes: Sequence[Outcome]

    def count(self, verdict: Verdict) -> int:
        return sum(outcome.verdict is verdict for outcome in self.outcomes)

    @property
    def by_test(self) -> dict[str, Outcome]:
        return {outcome.test: outcome for outcome in self.outcomes}


RESULTS: Final = BUILD / "outcomes"


def keep(run: Run, results: Path = RESULTS) -> None:
    """Stores a run in a file of its own, in place of an earlier run of the suite on the target."""
    path = results / run.suite / f"{run.target}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(run), indent=1))
    new.rename(path)


def kept(results: Path = RESULTS) -> list[Run]:
    """All stored runs."""
    return [_read(path) for path in sorted(results.glob("*/*.json"))]


def kept_run(suite: str, target: str, results: Path = RESULTS) -> Run | None:
    """The last whole run of a suite on a target. None if there was none."""
    path = results / suite / f"{target}.json"
    return _read(path) if path.exists() else None


def failed_before(run: Run) -> str:
    """A regular expression for the failed tests; empty if none failed."""
    names = {_top(outcome.test) for outcome in run.outcomes if outcome.verdict is Verdict.FAIL}
    return f"^(?:{'|'.join(map(re.escape, sorted(names)))})$" if names else ""


def merged(before: Run, again: Run) -> Run:
    """A run with the outcomes of the tests that were run again."""
    tops = {_top(outcome.test) for outcome in again.outcomes}
    left = [outcome for outcome in before.outcomes if _top(outcome.test) not in tops]
    return replace(before, outcomes=[*left, *again.outcomes])


def _top(test: str) -> str:
    """The test that contains a subtest, because only that can be run alone."""
    return test.partition("/")[0]


def _read(path: Path) -> Run:
    fields = json.loads(path.read_text())
    outcomes = [
        Outcome(**(outcome | {"verdict": Verdict(outcome["verdict"])}))
        for outcome in fields.pop("outcomes")
    ]
    return Run(**fields, outcomes=outcomes)
