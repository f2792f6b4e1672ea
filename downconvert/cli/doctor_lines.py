"""Prints a diagnosis on the terminal.

Not here: the page (doctor/page.py)."""

from collections.abc import Collection, Iterator, Sequence
from textwrap import wrap
from typing import Final

from downconvert.doctor.census import Census, ClientKey
from downconvert.doctor.diagnosis import Client, diagnose
from downconvert.doctor.page import called, span, when
from downconvert.doctor.releases import alike
from records.logged import shown
from records.units import format_count

from .grid import output

LABEL_WIDTH: Final = 14  # characters before the text about a client
SHOWN_MAX: Final = 200  # clients; --json and --html have more


def print_report(clients: Sequence[Client], release: str, problems: Sequence[str]) -> None:
    """Prints a block for each client that some release refuses, the number of these clients, and
    the problems of reading. Lines are wrapped at the terminal's width. In a file, each statement is
    one line."""
    console = output()
    refused = [client for client in clients if client.refused]
    for client in refused[:SHOWN_MAX]:
        console.print(_title(client), style="yellow" if client.refused_by(release) else None)
        for label, text in _block(client, release):
            indent = " " * LABEL_WIDTH
            lines = wrap(
                text,
                console.width - 1,
                initial_indent=f"  {label}".ljust(LABEL_WIDTH),
                subsequent_indent=indent,
                break_on_hyphens=False,
            )
            console.print("\n".join(lines), soft_wrap=True)
        console.print()
    if len(refused) > SHOWN_MAX:
        console.print(f"and {len(refused) - SHOWN_MAX:,} more: --json lists all\n")
    for releases in alike():
        count = sum(bool(client.refused_by(releases[0])) for client in clients)
        console.print(
            f"Kafka {span(releases)}: {count:,} of {format_count(len(clients), 'client')} "
            "would break.",
            style="yellow" if count and release in releases else None,
        )
    for problem in problems:
        console.print(f"not read: {problem}", soft_wrap=True)


def _title(client: Client) -> str:
    """The client's name, and the place where it was seen."""
    parts = (called(client), client.software or client.name, client.address)
    return ", ".join(shown(part) for part in parts if part)


def _block(client: Client, release: str) -> Iterator[tuple[str, str]]:
    """The client's refused requests, their number, and the advice."""
    yield "refused", ", ".join(_refused(client, release))
    last = f", last seen {when(client.last_seen)}" if client.last_seen is not None else ""
    yield "requests", f"{client.requests_refused:,} of {client.requests:,}{last}"
    yield "what to do", client.advice


def newly_broken(
    keys: Collection[ClientKey], census: Census, release: str, reported: set[tuple[str, str, str]]
) -> Iterator[str]:
    """A line for each of these clients that would break and was not reported before."""
    found = {key[:3] for key in keys} - reported
    uses = [(key, use) for key, use in census if key[:3] in found] if found else []
    for client in diagnose(uses, release):
        refused = client.refused_by(release)
        if refused:
            reported.add((client.client_id, client.software, client.address))
            yield f"{_title(client)}: {', '.join(map(str, refused))}; {client.advice}"


def _refused(client: Client, release: str) -> Iterator[str]:
    for one in client.refused:
        yield str(one) if release in one.releases else f"{one} (by {span(one.releases)})"
