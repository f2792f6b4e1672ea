"""`downconvert doctor`: finds the clients that would break with Kafka 4, from the traces of a Kafka
3 cluster.

Not here: reading and judging the evidence (doctor/), printing (doctor_lines.py), the sources
(doctor_sources.py)."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import click

from downconvert.doctor.capture import PORT
from downconvert.doctor.census import Census, ClientKey
from downconvert.doctor.diagnosis import Client, diagnose
from downconvert.doctor.page import Heading, write_report
from downconvert.doctor.releases import NEWEST, parse_release
from records.logged import shown

from .doctor_lines import newly_broken, print_report
from .doctor_sources import Source, opened
from .failure import CommandError
from .invocation import command_line
from .values import OutputFile, parsed

BROKEN = 1  # exit code
POLL_SECONDS = 1.0  # between two reads of followed sources


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--kafka",
    "release",
    metavar="VERSION",
    default=NEWEST,
    callback=parsed(parse_release),
    help="The release to upgrade to.",
)
@click.option(
    "--port",
    "ports",
    type=click.IntRange(1, 65535),
    multiple=True,
    default=(PORT,),
    help="Where brokers listen, in captures (repeatable).",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Keep reading new data until Ctrl-C, and report each client when it is found.",
)
@click.option("--html", type=OutputFile(), help="Also write an HTML page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(
    sources: Sequence[str],
    release: str,
    ports: Sequence[int],
    follow: bool,
    html: Path | None,
    as_json: bool,
) -> int:
    """Name the clients that would break with Kafka 4, before the upgrade.

    SOURCE is a file, also with gzip, a URL, or - for standard input. It holds a broker's request
    log (kafka.request.logger at DEBUG), a packet capture (pcap or pcapng), a page of metrics with
    DeprecatedRequestsPerSec, or what `downconvert gateway --report HOST:PORT --json` prints. Times
    are those in the logs, without a time zone.

    \b
    downconvert doctor kafka-request.log*
    downconvert doctor --html report.html --kafka 4.0.0 kafka-request.log
    tcpdump -i any -U -w - 'tcp dst port 9092' | downconvert doctor --follow -
    downconvert doctor http://broker-1:7071/metrics

    Exit codes: 0 none would break, 1 some would, 2 bad input.
    """
    census = Census()
    with opened(sources, ports, follow=follow) as readers:
        if follow:
            _follow(readers, census, release, as_json=as_json)
        else:
            for reader in readers:
                while not reader.is_over:
                    for seen in reader.read():
                        census.add(seen)
        for reader in readers:
            for seen in reader.end():
                census.add(seen)
        problems = [problem for reader in readers for problem in reader.problems()]
        described = [f"{shown(reader.name)} ({reader.kind})" for reader in readers]
        empty = [reader for reader in readers if reader.is_unreadable]
    if empty and len(empty) == len(readers):
        raise CommandError(next(empty[0].problems()))
    clients = diagnose(census, release)
    broken = [client for client in clients if client.refused_by(release)]
    if as_json:
        print(json.dumps(_report(clients, release, described, problems)))
    else:
        print_report(clients, release, problems)
    if html is not None:
        write_report(html, clients, Heading(described, problems, release, command_line()))
        click.echo(f"{html}: open it in a browser", err=True)
    return BROKEN if broken else 0


def _follow(readers: Sequence[Source], census: Census, release: str, *, as_json: bool) -> None:
    """Reads until Ctrl-C, or until all followed sources have ended."""
    reported: set[tuple[str, str, str]] = set()
    try:
        while True:
            fresh: dict[ClientKey, None] = {}
            for reader in readers:
                for seen in reader.read():
                    fresh[census.add(seen)] = None
            for line in newly_broken(fresh, census, release, reported):
                click.echo(line, err=as_json)
            if all(reader.is_over for reader in readers):
                return
            if not fresh:
                time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        return


def _report(
    clients: Sequence[Client], release: str, sources: Sequence[str], problems: Sequence[str]
) -> dict[str, object]:
    return {
        "kafka": release,
        "sources": list(sources),
        "problems": list(problems),
        "clients": [client.as_json(release) for client in clients],
    }
