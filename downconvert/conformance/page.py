"""A score as one HTML file that opens offline, or as Markdown for a document.

Not here: the findings (score.py)."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from downconvert.report.page import framed, write_page
from records.logged import shown

from .plans import PLANS
from .rules import RULES, clients_of
from .score import Fault, Score


def write_report(path: Path, score: Score, command: str) -> None:
    """Writes the file, all of it or nothing."""
    lead = f"{score.broker}, Fetch {_range(score)}. {again(score)}".rstrip()
    is_good = score.right == len(score.cases)
    title = "Does it serve old clients?"
    reply = "No" if not score.serves_old else "Yes" if is_good else "Not all of them"
    conclusion = f"{reply}: {verdict(score)}"
    parts = _sections(score)
    write_page(path, framed(title, conclusion, command, parts, is_good=is_good, lead=lead))


def _sections(score: Score) -> Iterator[str]:
    faults = score.faults()
    for fault in faults:
        rule = RULES[fault.rule]
        yield f"<section><h2>Rule: {escape(rule.what)}</h2>"
        yield f'<p class="bad">Broken: {escape(fault.words)}</p>'
        if fault.shown:
            yield f"<p><code>{escape(fault.shown)}</code></p>"
        yield '<dl class="facts">'
        for name, words in (
            ("Fetch", where(fault)),
            ("topics", ", ".join(fault.topics)),
            ("cases", str(len(fault.cases))),
            ("affected clients", rule.hurts),
            ("source of the rule", rule.source),
        ):
            yield f"<dt>{name}</dt><dd>{escape(words)}</dd>"
        yield "</dl></section>"
    yield "<section><h2>By version of Fetch</h2><table><thead><tr><th>version</th>"
    yield '<th>right cases</th><th class="wrap">used by</th></tr></thead><tbody>'
    for version in score.versions:
        right, count = score.of(version)
        mark = "good" if right == count else "bad"
        yield f'<tr><td>Fetch {version}</td><td class="{mark}">{right} of {count}</td>'
        yield f'<td class="wrap">{escape(clients_of(version))}</td></tr>'
    yield '</tbody></table></section><section><h2>What was written</h2><ul class="facts">'
    yield from (f"<li><b>{plan.name}</b>: {escape(plan.what)}</li>" for plan in PLANS)
    yield from (f"<li>not written: {escape(one)}</li>" for one in score.skipped)
    yield from (f"<li>not deleted: {escape(one)}</li>" for one in score.left)
    yield "</ul></section>"


def markdown(score: Score, title: str) -> Iterator[str]:
    """A section of a document, line by line."""
    yield f"## {title}"
    yield ""
    yield f"**{verdict(score)}** Fetch {_range(score)}. {again(score)}".rstrip()
    yield ""
    faults = score.faults()
    if faults:
        yield "| rule | Fetch | topics | cases | first case | affected clients |"
        yield "| --- | --- | --- | --- | --- | --- |"
    for fault in faults:
        topics = ", ".join(fault.topics)
        words = shown(fault.words).replace("|", "\\|")
        cells = (fault.rule, where(fault), topics, str(len(fault.cases)), words)
        yield f"| {' | '.join(cells)} | {RULES[fault.rule].hurts} |"
    if faults:
        yield ""
    for what, which in (("written", score.skipped), ("deleted", score.left)):
        if which:
            yield from (f"Not {what}: " + ";\n".join(map(shown, which)) + ".", "")


def verdict(score: Score) -> str:
    """The score in a sentence."""
    if not score.serves_old:
        return (
            f"{score.right:,} of {len(score.cases):,} cases are right; it offers no version of "
            "Fetch below 4, so it serves no old client."
        )
    return f"{score.right:,} of {len(score.cases):,} cases are right."


def again(score: Score) -> str:
    """The bytes that were sent in vain, in a sentence; empty if no old version was used."""
    if not score.serves_old:
        return ""
    return (
        f"{100 * score.again:.1f} % of the bytes that versions below 4 got were cut-off messages, "
        "which are sent again."
    )


def where(fault: Fault) -> str:
    """The versions of a fault, in short form."""
    versions = fault.versions
    if len(versions) > 1 and versions == list(range(versions[0], versions[-1] + 1)):
        return f"{versions[0]}-{versions[-1]}"
    return ", ".join(map(str, versions))


def _range(score: Score) -> str:
    return f"{score.versions.start}-{score.versions.stop - 1}" if score.versions else "none"
