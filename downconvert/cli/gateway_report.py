"""Reports the clients that use old versions, by a gateway's counts, as a table, as JSON or as a
page."""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import click

from downconvert.report.page import framed, write_page
from records.logged import shown
from records.units import format_count, format_size

from .failure import CommandError, reason
from .grid import grid, output, print_table
from .invocation import command_line
from .logs import CLUSTER
from .report_groups import Group, grouped, in_ranges
from .report_topics import conclusion, joined, lines

TIMEOUT: Final = 10.0  # seconds
OLD_TLS: Final = ("TLSv1", "TLSv1.1")  # OpenSSL's names
COLUMNS: Final = (
    *("software", "address", "requests", "translated", "converted"),
    *("first seen", "last seen"),
)
GROUP_COLUMNS: Final = (
    *("old clients", "requests", "translated"),
    *("first seen", "last seen", "last old"),
)
# Rows that are equal in these columns belong to one client.
KEY: Final = ("client_id", "software", "address")
TOPIC_COLUMNS: Final = ("topic", "principal", "last old", "ago")
BY_TOPIC: Final = "topic"
AGES: Final = (  # the first release that sends Fetch in this version
    (0, "0.8"),
    (1, "0.9"),
    (2, "0.10.0"),
    (3, "0.10.1"),
)


def show(urls: Sequence[str], html: Path | None, by: str | None, *, as_json: bool) -> None:
    """Prints the sums over all gateways, and writes them to `html`, if given. `by`: the
    grouping."""
    if by == BY_TOPIC:
        _show_topics([_fetched(url, "history") for url in urls], as_json=as_json)
        return
    every = [_fetched(url, "clients") for url in urls]
    rows: list[dict[str, Any]] = every[0] if len(every) == 1 else merged_rows(every)
    groups = [] if by is None else grouped(rows, by)
    if as_json:
        click.echo(json.dumps([one.figures() for one in groups] if by is not None else rows))
    elif by is not None:
        _print_groups(groups, by)
    else:
        _print(rows)
    if html is not None:
        title = "Which clients use old versions"
        clients = _clients(rows)
        need = sum(bool(client["translated"]) for client in clients)
        words = _need(need, len(clients))
        lead = f"What the gateway at {' and '.join(urls)} has seen."
        parts = _sections(rows) if by is None else _group_sections(groups, by)
        is_good = not need if clients else None
        page = framed(title, words, command_line(), parts, is_good=is_good, lead=lead)
        write_page(html, page)
        click.echo(f"{html}: open it in a browser", err=True)


def merged_rows(every: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Merges the rows of several gateways. Rows of different clusters stay separate."""
    from downconvert.gateway.session.census import merged

    clusters: dict[str | None, list[dict[str, Any]]] = {}
    for rows in every:
        for row in rows:
            clusters.setdefault(row.get(CLUSTER), []).append(row)
    return [
        row if name is None else {CLUSTER: name, **row}
        for name, rows in clusters.items()
        for row in merged(rows)
    ]


def _show_topics(fetched: list[dict[str, Any]], *, as_json: bool) -> None:
    """Shows for each cluster when the gateway can be removed."""
    from downconvert.gateway.clusters import CLUSTERS, ONLY

    from .gateway_history import pages_of

    found: dict[str, list[dict[str, Any]]] = {}
    for every in fetched:
        for name, page in pages_of(every).items():
            found.setdefault(name, []).append(page)
    pages = {name: joined(one) for name, one in found.items()}
    is_one = pages.keys() == {ONLY}
    if as_json:
        click.echo(json.dumps(pages[ONLY] if is_one else {CLUSTERS: pages}))
        return
    console, now = output(), time.time()
    table = grid(*([] if is_one else [CLUSTER]), *TOPIC_COLUMNS)
    for name, page in pages.items():
        for line in lines(page, now):
            table.add_row(*map(shown, line if is_one else (name, *line)))
    print_table(table, console)
    console.print()
    for name, page in pages.items():
        console.print(("" if name == ONLY else f"{name}: ") + conclusion(page, now))


def _fetched(url: str, page: str) -> Any:
    where = url if "://" in url else f"http://{url}"
    try:
        with urlopen(f"{where.rstrip('/')}/{page}", timeout=TIMEOUT) as response:
            return json.load(response)
    except (OSError, ValueError) as error:
        raise CommandError(
            f"{url}: {reason(error)}; is a gateway running there with --http?"
        ) from None


def _clients(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each client, those that need the gateway first."""
    clients: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row.get(name, "") for name in (CLUSTER, *KEY))
        client = clients.setdefault(
            key,
            {
                "cluster": row.get(CLUSTER, ""),
                "client": shown(row["client_id"]) or "(no name)",
                "software": shown(row["software"]) or _age(rows, key),
                "address": shown(row["address"]),
                "requests": 0,
                "translated": 0,
                "old": set(),
                "bytes_converted": 0,
                "tls": set(),
                "first_seen": row["first_seen"],
                "last_seen": 0.0,
            },
        )
        for name in ("requests", "translated", "bytes_converted"):
            client[name] += row[name]
        client["first_seen"] = min(client["first_seen"], row["first_seen"])
        client["last_seen"] = max(client["last_seen"], row["last_seen"])
        client["tls"] |= {row.get("tls", "")} & {*OLD_TLS}
        if row["translated"]:
            client["old"].add(f"{row['api']} v{row['version']}")
    return sorted(clients.values(), key=lambda one: (-one["translated"], one["client"]))


def _age(rows: list[dict[str, Any]], key: tuple[str, ...]) -> str:
    """Guesses the software of a client that does not name it, by the versions of its fetches."""
    fetches = [
        row["version"]
        for row in rows
        if row["api"] == "Fetch" and tuple(row.get(name, "") for name in (CLUSTER, *KEY)) == key
    ]
    return next((f"speaks {age}" for version, age in AGES if version in fetches), "unknown")


def _print(rows: list[dict[str, Any]]) -> None:
    clients = _clients(rows)
    old = [client for client in clients if client["translated"]]
    named = _names_clusters(clients)
    table = grid(*named, "client", *COLUMNS)
    for client in clients:
        style = "yellow" if client["translated"] else None
        table.add_row(
            *(client[name] for name in named),
            client["client"],
            client["software"],
            client["address"],
            f"{client['requests']:,}",
            f"{client['translated']:,}",
            format_size(client["bytes_converted"]),
            _when(client["first_seen"]),
            _when(client["last_seen"]),
            style=style,
        )
    console = output()
    print_table(table, console)
    console.print("\n" + _need(len(old), len(clients)))
    for client in old:
        where = "".join(f"{client[name]}: " for name in named)
        console.print(f"  {where}{client['client']}: {in_ranges(client['old'])}")
    if unsafe := _with_old_tls(clients):
        console.print(f"\n{unsafe}")


def _names_clusters(clients: list[dict[str, Any]]) -> list[str]:
    """The column for clusters, if rows have one."""
    return [CLUSTER] if any(client[CLUSTER] for client in clients) else []


def _need(count: int, total: int, what: str = "client") -> str:
    if total == 0:
        return "No client has sent a request yet."
    number = f"{count:,}" if count else "none"
    return (
        f"{number} of {format_count(total, what)} {'needs' if count < 2 else 'need'} the gateway."
    ).capitalize()


def _with_old_tls(clients: list[dict[str, Any]]) -> str:
    """A line about clients with unsafe versions of TLS [RFC 8996]. Empty if there are none."""
    names = [client["client"] for client in clients if client["tls"]]
    return f"TLS 1.0 or 1.1, which is not safe: {', '.join(names)}." if names else ""


def _group_cells(group: Group) -> tuple[str, ...]:
    return (
        f"{len(group.old_clients)} of {len(group.clients)}",
        f"{group.requests:,}",
        f"{group.translated:,}",
        _when(group.first_seen),
        _when(group.last_seen),
        "never" if group.last_old is None else _when(group.last_old),
    )


def _print_groups(groups: list[Group], by: str) -> None:
    table = grid(by, *GROUP_COLUMNS)
    for group in groups:
        style = "yellow" if group.old_clients else None
        table.add_row(shown(group.name), *_group_cells(group), style=style)
    console = output()
    print_table(table, console)
    old = [group for group in groups if group.old_clients]
    console.print("\n" + _need(len(old), len(groups), "group"))
    for group in old:
        console.print(f"  {shown(group.name)}: {in_ranges(group.old)}")


def _group_sections(groups: list[Group], by: str) -> Iterator[str]:
    yield f"<section><table><thead><tr><th>{by}</th>"
    yield "".join(f"<th>{column}</th>" for column in GROUP_COLUMNS) + "</tr></thead><tbody>"
    for group in groups:
        kind = "bad" if group.old_clients else "same"
        yield f'<tr><td><div><span class="{kind}">{escape(shown(group.name))}</span>'
        if group.old:
            yield f'<br><span class="same">{escape(in_ranges(group.old))}</span>'
        cells = "".join(f"<td>{cell}</td>" for cell in _group_cells(group))
        yield f"</div></td>{cells}</tr>"
    yield "</tbody></table></section>"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _sections(rows: list[dict[str, Any]]) -> Iterator[str]:
    clients = _clients(rows)
    old = [client for client in clients if client["translated"]]
    converted = format_size(sum(client["bytes_converted"] for client in clients))
    yield '<section><div class="tiles">'
    for label, figure in (
        ("clients that need the gateway", str(len(old))),
        ("clients seen", str(len(clients))),
        ("requests translated", f"{sum(client['translated'] for client in clients):,}"),
        ("records sent in an older format", converted),
    ):
        yield f'<div class="tile"><div class="label">{label}</div>'
        yield f'<div class="figure">{figure}</div></div>'
    named = _names_clusters(clients)
    yield "</div><table><thead><tr>"
    yield (
        "".join(f"<th>{column}</th>" for column in (*named, "client", *COLUMNS))
        + "</tr></thead><tbody>"
    )
    for client in clients:
        kind = "bad" if client["translated"] else "same"
        yield "<tr>" + "".join(f"<td>{escape(client[name])}</td>" for name in named)
        yield f'<td><div><span class="{kind}">{escape(client["client"])}</span>'
        if client["old"]:
            yield f'<br><span class="same">{escape(in_ranges(client["old"]))}</span>'
        yield "</div></td>"
        yield f"<td>{escape(client['software'])}</td><td>{escape(client['address'])}</td>"
        yield f"<td>{client['requests']:,}</td>"
        yield f"<td>{client['translated']:,}</td>"
        yield f"<td>{format_size(client['bytes_converted'])}</td>"
        yield f"<td>{_when(client['first_seen'])}</td><td>{_when(client['last_seen'])}</td></tr>"
    yield "</tbody></table>"
    if unsafe := _with_old_tls(clients):
        yield f'<p class="bad">{escape(unsafe)}</p>'
    yield "</section>"
