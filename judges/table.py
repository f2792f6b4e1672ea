"""Runs as a table, and the differences between a target and its reference."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .outcome import Run, Verdict
from .places import TEMPLATE
from .reasons import reason
from .suites import SUITES
from .targets import TARGETS, Target


@dataclass(frozen=True, slots=True)
class Difference:
    """A test that passes on the reference, and not on the target."""

    suite: str
    target: str
    reference: str
    test: str
    verdict: str
    output: str
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.suite} {self.target}: {self.test}: {self.verdict} {self.output[:160]}".strip()
        )


def differences(runs: Sequence[Run]) -> list[Difference]:
    """All differences, in the order of the table."""
    return [found for run, reference in _pairs(runs) for found in _between(run, reference)]


def gained(run: Run, reference: Run) -> list[str]:
    """The tests that pass on the target, and not on the reference."""
    there = reference.by_test
    return [
        outcome.test
        for outcome in run.outcomes
        if outcome.verdict is Verdict.PASS
        if outcome.test in there and there[outcome.test].verdict is not Verdict.PASS
    ]


def text(runs: Sequence[Run]) -> str:
    """A line for each run."""
    lines = [f"{'suite':20} {'target':16} {'pass':>5} {'fail':>5} {'skip':>5}"]
    for run in _ordered(runs):
        counts = " ".join(f"{run.count(verdict):5}" for verdict in Verdict)
        lines.append(f"{run.suite:20} {run.target:16} {counts}")
    return "\n".join(lines)


def document(runs: Sequence[Run]) -> str:
    """docs/judges.md."""
    dates = sorted({run.date for run in runs})
    return "\n".join([
        TEMPLATE.read_text().format(
            counts="\n".join(_counts(runs)),
            dates=" to ".join(dict.fromkeys((dates[0], dates[-1]))),
        ),
        "## What differs from Kafka",
        "",
        "Tests that pass on the reference and not here:",
        "",
        *_difference_lines(runs),
    ])  # fmt: skip


def _counts(runs: Sequence[Run]) -> Iterator[str]:
    yield "| suite | " + " | ".join(target.title for target in TARGETS) + " |"
    yield "|---|" + "---|" * len(TARGETS)
    for suite in SUITES:
        cells = []
        for target in TARGETS:
            run = _of(runs, suite.name, target.name)
            cells.append(
                "not run" if run is None else " / ".join(str(run.count(v)) for v in Verdict)
            )
        yield f"| {suite.title} ({suite.version}) | " + " | ".join(cells) + " |"


def _difference_lines(runs: Sequence[Run]) -> Iterator[str]:
    yield "| suite | here | tests | why |"
    yield "|---|---|---|---|"
    for run, reference in _pairs(runs):
        found = list(_between(run, reference))
        for why in dict.fromkeys(map(_why, found)):
            same = [difference for difference in found if _why(difference) == why]
            names = _names([difference.test for difference in same])
            yield f"| {_title(run.suite)} | {_target(run.target).title} | {names} | {_cell(why)} |"
    yield ""
    yield "These pass here, and not on the reference:"
    yield ""
    yield "| suite | here | tests |"
    yield "|---|---|---|"
    for run, reference in _pairs(runs):
        if more := gained(run, reference):
            yield f"| {_title(run.suite)} | {_target(run.target).title} | {_names(more)} |"
    yield ""


def _why(difference: Difference) -> str:
    """The reason; if none is known, the verdict and the output."""
    output = difference.output or "nothing"
    return difference.reason or f"*not known yet*: {difference.verdict}, its output: {output}"


def _between(run: Run, reference: Run) -> Iterator[Difference]:
    here = run.by_test
    for there in reference.outcomes:
        if there.verdict is not Verdict.PASS:
            continue
        found = here.get(there.test)
        if found is not None and found.verdict is Verdict.PASS:
            continue
        yield Difference(
            run.suite,
            run.target,
            reference.target,
            there.test,
            found.verdict if found else "not run",
            found.output if found else "",
            reason(run.suite, run.target, there.test),
        )


def _pairs(runs: Sequence[Run]) -> Iterator[tuple[Run, Run]]:
    """Each run of one of our targets, with that of its reference if there is one."""
    for run in _ordered(runs):
        target = _target(run.target)
        old = next(suite.of_old_clients for suite in SUITES if suite.name == run.suite)
        reference = _of(runs, run.suite, target.old_reference if old else target.reference)
        if reference is not None:
            yield run, reference


def _ordered(runs: Sequence[Run]) -> Iterator[Run]:
    found = (_of(runs, suite.name, target.name) for suite in SUITES for target in TARGETS)
    return (run for run in found if run is not None)


def _of(runs: Sequence[Run], suite: str, target: str) -> Run | None:
    return next((run for run in runs if (run.suite, run.target) == (suite, target)), None)


def _target(name: str) -> Target:
    return next(target for target in TARGETS if target.name == name)


def _title(name: str) -> str:
    return next(suite.title for suite in SUITES if suite.name == name)


def _names(tests: Sequence[str]) -> str:
    return ", ".join(f"`{test}`" for test in tests)


def _cell(output: str) -> str:
    """A text in one line, with the table's own characters escaped."""
    return " ".join(output.replace("|", "/").split())[:300]
