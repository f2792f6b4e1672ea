"""A diagnosis as one HTML file, which opens offline and loads nothing.

Not here: the conclusions (diagnosis.py)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

from downconvert.report.page import framed, write_page
from records.logged import shown
from records.units import format_count

from .diagnosis import Client
from .releases import alike

SHOWN_MAX: Final = 1_000  # clients of each kind: nobody reads a longer page
NOTES: Final = (
    "A client would break if it sent a request in a version that the release refuses. The broker "
    "closes the connection at such a request. The versions are those of each release's message "
    "definitions (KIP-896).",
    "This page cannot show clients that were away, and requests that are rare, such as those of "
    "administration. A day of evidence, or a week, says more than an hour.",
    "A client is one client id, software and address. Its software is known if the client names it "
    "(ApiVersions v3, KIP-511), or if its client id is a library's default.",
    "Requests between brokers are left out, except those of replicas that fetch as old clients do.",
)


@dataclass(frozen=True, slots=True)
class Heading:
    """The sources and times, for the head of the page."""

    sources: Sequence[str]  # a text for each source, with its kind
    problems: Sequence[str]
    release: str
    command: str


def write_report(path: Path, clients: Sequence[Client], heading: Heading) -> None:
    """Writes the file, all of it or nothing."""
    broken = sum(bool(one.refused_by(heading.release)) for one in clients)
    title = f"Who would break with Kafka {heading.release}"
    lead = f"Read from {'; '.join(heading.sources)}."
    parts = _sections(clients, heading)
    words = _conclusion(len(clients), broken, heading.release)
    is_good = not broken if clients else None
    write_page(path, framed(title, words, heading.command, parts, is_good=is_good, lead=lead))


def _conclusion(clients: int, broken: int, release: str) -> str:
    if not clients:
        return "No request was seen."
    if not broken:
        return f"None of the clients that were seen would break with Kafka {release}."
    return f"{broken:,} of {format_count(clients, 'client')} would break with Kafka {release}."


def _sections(clients: Sequence[Client], heading: Heading) -> Iterator[str]:
    broken = [one for one in clients if one.refused_by(heading.release)]
    elsewhere = [one for one in clients if one.refused and not one.refused_by(heading.release)]
    fine = [one for one in clients if not one.refused]
    yield from _releases(clients)
    if broken:
        yield "<section><h2>These would break</h2>"
        yield from _broken(broken, heading.release)
        yield "</section>"
    if elsewhere:
        yield "<section><h2>These would break with another release of Kafka 4</h2>"
        yield from _broken(elsewhere, None)
        yield "</section>"
    if fine:
        yield "<section><h2>These need nothing</h2>"
        yield '<p class="what">All that was seen of them is taken by every release of Kafka 4.</p>'
        yield from _fine(fine)
        yield "</section>"
    if heading.problems:
        yield '<section><h2>What could not be read</h2><ul class="facts">'
        yield from (f"<li>{escape(problem)}</li>" for problem in heading.problems)
        yield "</ul></section>"
    yield '<section><h2>How to read this</h2><ul class="facts">'
    yield from (f"<li>{escape(note)}</li>" for note in NOTES)
    yield "</ul></section>"


def _releases(clients: Sequence[Client]) -> Iterator[str]:
    """The number of clients that would break with each release."""
    yield '<section><h2>By release</h2><div class="tiles three">'
    for releases in alike():
        count = sum(bool(one.refused_by(releases[0])) for one in clients)
        kind = "bad" if count else "good"
        yield f'<div class="tile"><div class="label">Kafka {span(releases)}</div>'
        yield f'<div class="figure {kind}">{count:,}</div>'
        yield '<div class="beside">would break</div></div>'
    yield "</div></section>"


def _broken(clients: Sequence[Client], release: str | None) -> Iterator[str]:
    yield '<table><thead><tr><th>client</th><th class="wrap">what to do</th>'
    yield '<th class="wrap">what is refused</th><th>requests refused</th>'
    yield '<th class="wrap">software</th><th>address</th><th>last seen</th></tr></thead><tbody>'
    for one in clients[:SHOWN_MAX]:
        refused = one.refused if release is None else one.refused_by(release)
        lines = "<br>".join(
            f"<code>{escape(str(each))}</code>"
            + (f" by {span(each.releases)}" if release is None else "")
            for each in refused
        )
        counts = "<br>".join(f"{each.requests:,}" for each in refused)
        known = "".join(f"<b>{escape(one.name)}</b>: " if one.name else "")
        yield f'<tr><td><span class="bad">{_text(called(one))}</span></td>'
        yield f'<td class="wrap advice"><span>{known}{escape(one.advice)}</span></td>'
        yield f'<td class="wrap"><span>{lines}</span></td><td><span>{counts}</span></td>'
        yield f'<td class="wrap">{_text(one.software)}</td><td>{_text(one.address)}</td>'
        yield f"<td>{when(one.last_seen)}</td></tr>"
    yield "</tbody></table>" + _more(clients)


def _fine(clients: Sequence[Client]) -> Iterator[str]:
    yield '<table><thead><tr><th>client</th><th class="wrap">software</th><th>address</th>'
    yield "<th>requests</th><th>last seen</th></tr></thead><tbody>"
    for one in clients[:SHOWN_MAX]:
        yield f'<tr><td>{_text(called(one))}</td><td class="wrap">{_text(one.software)}</td>'
        yield f"<td>{_text(one.address)}</td><td>{one.requests:,}</td>"
        yield f"<td>{when(one.last_seen)}</td></tr>"
    yield "</tbody></table>" + _more(clients)


def _more(clients: Sequence[Client]) -> str:
    more = len(clients) - SHOWN_MAX
    return f'<p class="what">and {more:,} more: --json lists all</p>' if more > 0 else ""


def _text(name: str) -> str:
    """HTML of a text from outside, which may have control characters."""
    return escape(shown(name))


def called(client: Client) -> str:
    """A client's name for readers."""
    return client.client_id or "(no client id)"


def span(releases: Sequence[str]) -> str:
    """Consecutive releases in short form."""
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"


def when(seconds: float | None) -> str:
    """A time for readers, as in logs: without a zone."""
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
