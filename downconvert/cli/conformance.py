"""`downconvert conformance`: whether a broker serves old clients as it says.

Not here: what is asked and judged (conformance/)."""

import json
from pathlib import Path

import click

from downconvert.conformance.connection import ConformanceError
from downconvert.conformance.page import again, markdown, verdict, where, write_report
from downconvert.conformance.plans import PLANS
from downconvert.conformance.rules import RULES
from downconvert.conformance.score import Score, judge

from .failure import CommandError
from .terminal import name_the_backend, progress

WRONG = 1  # exit code


@click.command(short_help="Judge whether a broker serves old clients.")
@click.argument("address", metavar="HOST:PORT")
@click.option(
    "--topic",
    "topics",
    type=click.Choice([plan.name for plan in PLANS]),
    multiple=True,
    help="Only this one of the topics; may be repeated.",
)
@click.option("--keep", is_flag=True, help="Leave the topics there.")
@click.option("--html", type=click.Path(path_type=Path), help="Also write a page.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object.")
@click.option("--markdown", "title", metavar="TITLE", help="A section of a document.")
def conformance(
    address: str,
    topics: tuple[str, ...],
    keep: bool,
    html: Path | None,
    as_json: bool,
    title: str | None,
) -> int:
    """Judge the broker at HOST:PORT: topics are written to it, and fetched in every version of
    Fetch that it offers, with limits from one byte to 1 MiB.

    Its topics are named conformance-…, and are deleted in the end. Whatever speaks Kafka's protocol
    without TLS and login can be asked: Apache Kafka, this project's serve and gateway, others.

    \b
    downconvert conformance localhost:9092
    downconvert conformance localhost:9092 --topic transactions --html report.html

    Exit codes: 0 all is right, 1 some is not, 2 it cannot be judged.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise click.BadParameter("a host and a port, as localhost:9092", param_hint="HOST:PORT")
    name_the_backend()
    try:
        with progress() as step:
            score = judge(host.strip("[]"), int(port), names=topics, keep=keep, step=step)
    except ConformanceError as error:
        raise CommandError(str(error)) from None
    if as_json:
        print(json.dumps(score.as_json()))
    elif title is not None:
        print("\n".join(markdown(score, title)))
    else:
        _print(score)
    if html is not None:
        write_report(html, score)
        click.echo(f"{html}: open it in a browser", err=True)
    return 0 if score.right == len(score.cases) else WRONG


def _print(score: Score) -> None:
    for fault in score.faults():
        rule = RULES[fault.rule]
        print(f"{fault.rule}: {rule.what}")
        print(f"  Fetch {where(fault)}; {', '.join(fault.topics)}; {len(fault.cases)} cases")
        print(f"  {fault.words}" + (f": {fault.shown}" if fault.shown else ""))
        print(f"  hurts {rule.hurts}")
        print(f"  from {rule.source}")
    for one in score.skipped:
        print(f"not written: {one}")
    print(f"{score.broker}: {verdict(score)} {again(score)}".rstrip())
