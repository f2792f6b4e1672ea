"""The results of runs of a simulated cluster: for a terminal, as JSON, as a page.

Not here: the runs (cluster.py)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from downconvert.report.page import framed, write_page
from records.units import format_count

from .cluster import Outcome, on_every_replica
from .options import ClusterOptions

CHECKED = (
    "No acknowledged record is lost, no consumer reads a record twice or one that is not "
    "committed, no high watermark goes back, and in the end all replicas are equal."
)


@dataclass(frozen=True, slots=True)
class Run:
    """A run of one seed, with its options and result. Either outcome or failure is None."""

    options: ClusterOptions
    outcome: Outcome | None
    failure: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "options": asdict(self.options),
            "outcome": None if self.outcome is None else asdict(self.outcome),
            "failure": self.failure,
        }


def verdict(runs: Sequence[Run]) -> str:
    """The result of all runs in one sentence."""
    outcomes = [run.outcome for run in runs if run.outcome is not None]
    for run in runs:
        if run.failure is not None:
            held = format_count(len(outcomes), "seed")
            return f"seed {run.options.seed} broke an invariant, after {held} that broke none"
    promised = sum(outcome.promised for outcome in outcomes)
    held = format_count(len(runs), "seed")
    return f"{held}: every invariant held; {on_every_replica(promised)}"


def faults(runs: Sequence[Run]) -> str:
    """The number of faults of each kind, in all runs."""
    happened = Counter[str]()
    for run in runs:
        happened.update(run.outcome.faults if run.outcome is not None else {})
    return ", ".join(f"{name} {n:,}" for name, n in sorted(happened.items())) or "no faults"


def write_report(path: Path, runs: Sequence[Run], command: str) -> None:
    """Writes the file, all of it or nothing."""
    words = verdict(runs)
    is_good = all(run.failure is None for run in runs)
    parts = _sections(runs)
    conclusion = f"{words[0].upper()}{words[1:]}."
    title = "Replicated brokers under faults, simulated"
    write_page(path, framed(title, conclusion, command, parts, is_good=is_good))


def _sections(runs: Sequence[Run]) -> Iterator[str]:
    yield '<section><h2>What was checked</h2><p class="what">' + CHECKED + "</p>"
    yield f'<p class="what">Faults: {escape(faults(runs))}.</p></section>'
    yield "<section><h2>Seeds</h2><table><thead><tr><th></th><th>written</th>"
    yield "<th>acknowledged, acks=all</th><th>other records in the logs</th><th>epochs</th>"
    yield '<th>seconds</th><th class="wrap">result</th></tr></thead><tbody>'
    for run in runs:
        yield f"<tr><td>seed {run.options.seed}</td>"
        if run.outcome is None:
            yield '<td colspan="5"></td>'
            yield f'<td class="wrap bad">{escape(run.failure or "")}</td></tr>'
            continue
        outcome = run.outcome
        counts = (outcome.written, outcome.promised, outcome.others, outcome.epochs)
        yield from (f"<td>{count:,}</td>" for count in counts)
        yield f'<td>{outcome.seconds:.1f}</td><td class="wrap good">held</td></tr>'
    yield "</tbody></table>"
    for run in runs:
        yield f"<h3>Seed {run.options.seed}</h3><ul class='facts'>"
        yield from (f"<li>{escape(line)}</li>" for line in run.options.describe())
        yield "</ul>"
    yield "</section>"
