"""A diagnosis on the terminal.

Not here: as a page (doctor/page.py)."""

from collections.abc import Collection, Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from downconvert.doctor.census import Census, ClientKey
from downconvert.doctor.diagnosis import Client, diagnose
from downconvert.doctor.page import called, span, when
from downconvert.doctor.releases import alike
from records.units import format_count

from .grid import grid

FILE_WIDTH = 160  # characters, where no terminal says how many there are
NAME_WIDTH = 36  # characters of a name in the table
SHOWN_MAX = 200  # clients; --json and --html have more


def shown(name: str) -> str:
    """What a client or a file calls itself, without what would do something to a terminal."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name
    )


def print_report(clients: Sequence[Client], release: str, problems: Sequence[str]) -> None:
    """The table of those that some release refuses, what to do, and what could not be read."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    refused = [client for client in clients if client.refused]
    broken = [client for client in clients if client.refused_by(release)]
    if refused:
        table = grid("client", "software", "address", "requests", "last seen", "refused")
        for client in refused[:SHOWN_MAX]:
            table.add_row(
                _cut(called(client)),
                _cut(client.software or client.name or "unknown"),
                _cut(client.address),
                f"{sum(one.requests for one in client.refused):,}",
                when(client.last_seen),
                ", ".join(_refused(client, release)),
                style="yellow" if client in broken else None,
            )
        console.print(table)
        if len(refused) > SHOWN_MAX:
            console.print(f"and {len(refused) - SHOWN_MAX:,} more: --json lists all")
        console.print("")
    for releases in alike():
        count = sum(bool(client.refused_by(releases[0])) for client in clients)
        console.print(
            f"Kafka {span(releases)}: {count:,} of {format_count(len(clients), 'client')} "
            "would break.",
            style="yellow" if count and release in releases else None,
        )
    for what, names in _advice(refused).items():
        more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
        console.print(f"  {escape(', '.join(names[:5]))}{more}: {escape(what)}", soft_wrap=True)
    for problem in problems:
        console.print(f"not read: {escape(problem)}", soft_wrap=True)


def newly_broken(
    keys: Collection[ClientKey], census: Census, release: str, told: set[tuple[str, str, str]]
) -> Iterator[str]:
    """A line for each client among these that would break, and was not told of before."""
    found = {key[:3] for key in keys} - told
    uses = [(key, use) for key, use in census if key[:3] in found] if found else []
    for client in diagnose(uses, release):
        refused = client.refused_by(release)
        if refused:
            told.add((client.client_id, client.software, client.address))
            who = [called(client), client.software or client.name, client.address]
            said = ", ".join(shown(part) for part in who if part)
            yield f"{said}: {', '.join(map(str, refused))}; {client.advice}"


def _advice(clients: Sequence[Client]) -> dict[str, list[str]]:
    """What to do, and for whom."""
    found: dict[str, list[str]] = {}
    for client in clients:
        names = found.setdefault(client.advice, [])
        name = shown(called(client))
        if name not in names:
            names.append(name)
    return found


def _refused(client: Client, release: str) -> Iterator[str]:
    for one in client.refused:
        yield str(one) if release in one.releases else f"{one} (by {span(one.releases)})"


def _cut(name: str) -> Text:
    text = Text(shown(name))
    text.truncate(NAME_WIDTH, overflow="ellipsis")
    return text
