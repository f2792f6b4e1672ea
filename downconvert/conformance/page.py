"""A score as one HTML file that opens offline, or as Markdown for a document.

Not here: what was found (score.py)."""

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

from downconvert.report.page import write_page
from downconvert.report.style import CSS

from .plans import PLANS
from .rules import RULES, clients_of
from .score import Fault, Score

OWN_CSS: Final = """
section { overflow-x: auto; }
th, td { vertical-align: top; }
th:first-child, td:first-child { width: auto; }
td.wrap, th.wrap { white-space: normal; text-align: left; min-width: 180px; }
.hero { font-size: 28px; font-weight: 650; letter-spacing: -0.02em; margin: 8px 0 0; }
code { background: #eceff4; border-radius: 4px; padding: 1px 5px; font-size: 0.85em;
  overflow-wrap: anywhere; }
"""


def write_report(path: Path, score: Score) -> None:
    """Writes the file, all of it or nothing."""
    write_page(path, _page(score))


def _page(score: Score) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield "<title>Conformance</title>"
    yield f"<style>{CSS}{OWN_CSS}</style></head><body><main>"
    yield "<h1>Does it serve old clients?</h1>"
    yield f'<p class="lead">{escape(score.broker)}, Fetch {_range(score)}.</p>'
    kind = "good" if score.right == len(score.cases) else "bad"
    yield f'<section><p class="hero {kind}">{verdict(score)}</p>'
    yield f'<p class="what">{escape(again(score))}</p></section>'
    faults = score.faults()
    for fault in faults:
        rule = RULES[fault.rule]
        yield f"<section><h2>{escape(rule.what)}</h2>"
        yield f'<p class="bad">{escape(fault.words)}</p>'
        if fault.shown:
            yield f"<p><code>{escape(fault.shown)}</code></p>"
        yield '<dl class="facts">'
        for name, words in (
            ("Fetch", where(fault)),
            ("topics", ", ".join(fault.topics)),
            ("cases", str(len(fault.cases))),
            ("whom it hurts", rule.hurts),
            ("where the rule is from", rule.source),
        ):
            yield f"<dt>{name}</dt><dd>{escape(words)}</dd>"
        yield "</dl></section>"
    yield "<section><h2>By version of Fetch</h2><table><thead><tr><th>Fetch</th>"
    yield '<th>right</th><th>of</th><th class="wrap">who asks it</th></tr></thead><tbody>'
    for version in score.versions:
        right, count = score.of(version)
        mark = "good" if right == count else "bad"
        yield f'<tr><td>{version}</td><td class="{mark}">{right}</td><td>{count}</td>'
        yield f'<td class="wrap">{escape(clients_of(version))}</td></tr>'
    yield '</tbody></table></section><section><h2>What was written</h2><ul class="facts">'
    yield from (f"<li><b>{plan.name}</b>: {escape(plan.what)}</li>" for plan in PLANS)
    yield from (f"<li>not written: {escape(one)}</li>" for one in score.skipped)
    yield "</ul></section></main></body></html>\n"


def markdown(score: Score, title: str) -> Iterator[str]:
    """A section of a document, line by line."""
    yield f"## {title}"
    yield ""
    yield f"**{verdict(score)}** Fetch {_range(score)}. {again(score)}".rstrip()
    yield ""
    faults = score.faults()
    if faults:
        yield "| rule | Fetch | topics | cases | the first | whom it hurts |"
        yield "| --- | --- | --- | --- | --- | --- |"
    for fault in faults:
        topics = ", ".join(fault.topics)
        cells = (fault.rule, where(fault), topics, str(len(fault.cases)), fault.words)
        yield f"| {' | '.join(cells)} | {RULES[fault.rule].hurts} |"
    if faults:
        yield ""
    for one in score.skipped:
        yield f"Not written: {one}."
        yield ""


def verdict(score: Score) -> str:
    """The score in a sentence."""
    if not score.serves_old:
        return (
            f"{score.right:,} of {len(score.cases):,} cases are right; it offers no version of "
            "Fetch below 4, so it serves no old client."
        )
    return f"{score.right:,} of {len(score.cases):,} cases are right."


def again(score: Score) -> str:
    """What was sent in vain, in a sentence; empty where nothing old was asked."""
    if not score.serves_old:
        return ""
    return (
        f"{100 * score.again:.1f} % of the bytes that versions below 4 got were cut-off messages, "
        "which are sent another time."
    )


def where(fault: Fault) -> str:
    """The versions of a fault, in a few letters."""
    versions = fault.versions
    if len(versions) > 1 and versions == list(range(versions[0], versions[-1] + 1)):
        return f"{versions[0]}-{versions[-1]}"
    return ", ".join(map(str, versions))


def _range(score: Score) -> str:
    return f"{score.versions.start}-{score.versions.stop - 1}" if score.versions else "none"
