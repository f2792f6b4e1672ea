"""`downconvert conformance`: checks that a broker serves old clients in the versions that it
offers.

Not here: the requests and the rules (conformance/)."""

import json
import os
from dataclasses import replace
from pathlib import Path

import click

from downconvert.access.rights import ConfigError
from downconvert.conformance.connection import Access, ConformanceError
from downconvert.conformance.page import again, markdown, verdict, where, write_report
from downconvert.conformance.plans import PLANS
from downconvert.conformance.rules import RULES
from downconvert.conformance.score import Score, judge
from downconvert.gateway.security import MECHANISMS, ClusterSecurity, Credentials, tls_context
from downconvert.gateway.settings import SECRET_VARIABLE
from records.logged import shown
from records.units import format_count

from .failure import CommandError
from .invocation import command_line
from .server_options import ADDRESS
from .terminal import name_the_backend, progress
from .values import OutputFile

WRONG = 1  # exit code


@click.command()
@click.argument("address", metavar="HOST:PORT", callback=ADDRESS)
@click.option(
    "--topic",
    "topics",
    type=click.Choice([plan.name for plan in PLANS]),
    multiple=True,
    help="Test only this topic (repeatable).",
)
@click.option("--tls", is_flag=True, help="Speak TLS.")
@click.option("--ca", metavar="FILE", help="The authority that signs the brokers' certificates.")
@click.option("--cert", metavar="FILE", help="Our certificate, where brokers ask for one.")
@click.option("--key", metavar="FILE", help="The certificate's key.  [default: it is in --cert]")
@click.option(
    "--sasl",
    metavar="MECHANISM",
    type=click.Choice(MECHANISMS),
    help=f"How to log in: {', '.join(MECHANISMS)}. The secret: ${SECRET_VARIABLE}.",
)
@click.option("--username", metavar="NAME", help="The user for --sasl.")
@click.option("--keep", is_flag=True, help="Keep the topics afterwards.")
@click.option("--html", type=OutputFile(), help="Also write an HTML page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--markdown",
    "title",
    metavar="TITLE",
    help="Print a section of a Markdown document, with this title.",
)
def conformance(
    address: tuple[str, int],
    topics: tuple[str, ...],
    tls: bool,
    ca: str | None,
    cert: str | None,
    key: str | None,
    sasl: str | None,
    username: str | None,
    keep: bool,
    html: Path | None,
    as_json: bool,
    title: str | None,
) -> int:
    """Test the broker at HOST:PORT. Topics are written to it and fetched in every version of Fetch
    that it offers, with limits from one byte to 1 MiB.

    The topics are named conformance-…, and are deleted at the end. Any server with Kafka's protocol
    can be judged: Apache Kafka, this project's serve and gateway, others.

    \b
    downconvert conformance localhost:9092
    downconvert conformance localhost:9092 --topic transactions --html report.html
    downconvert conformance kafka.example:9093 --ca ca.pem --sasl SCRAM-SHA-512 --username tester

    Exit codes: 0 all is right, 1 something is wrong, 2 the broker cannot be judged."""
    host, port = address
    if not port:
        raise click.BadParameter("port 0 is not a port to connect to", param_hint="HOST:PORT")
    access = _access(
        ClusterSecurity(tls=tls, ca_file=ca, cert_file=cert, key_file=key), sasl, username
    )
    name_the_backend()
    try:
        with progress() as step:
            score = judge(host, port, access=access, names=topics, keep=keep, step=step)
    except ConformanceError as error:
        raise CommandError(str(error)) from None
    if as_json:
        print(json.dumps(score.as_json()))
    elif title is not None:
        print("\n".join(markdown(score, title)))
    else:
        _print(score)
    if html is not None:
        write_report(html, score, command_line())
        click.echo(f"{html}: open it in a browser", err=True)
    return 0 if score.right == len(score.cases) else WRONG


def _access(security: ClusterSecurity, sasl: str | None, username: str | None) -> Access:
    """Uses TLS if any of its files is named. CommandError: a file is invalid, or another setting is
    missing."""
    if security.key_file is not None and security.cert_file is None:
        raise CommandError("--key needs --cert, the certificate that it belongs to")
    if sasl is None and username is not None:
        raise CommandError("--username needs --sasl, the mechanism")
    if sasl not in (None, "OAUTHBEARER") and not username:
        raise CommandError("--sasl needs --username, the user")
    credentials = None
    if sasl is not None:
        if SECRET_VARIABLE not in os.environ:
            raise CommandError(f"no secret for --sasl: set {SECRET_VARIABLE}")
        credentials = Credentials(
            mechanism=sasl, username=username or "", secret=os.environ[SECRET_VARIABLE]
        )
    named = security.tls or security.ca_file is not None or security.cert_file is not None
    try:
        context = tls_context(replace(security, tls=named))
    except ConfigError as error:
        raise CommandError(str(error)) from None
    return Access(tls=context, credentials=credentials)


def _print(score: Score) -> None:
    for fault in score.faults():
        rule = RULES[fault.rule]
        print(f"{fault.rule}: {rule.what}")
        cases = format_count(len(fault.cases), "case")
        print(f"  Fetch {where(fault)}; {', '.join(fault.topics)}; {cases}")
        print(f"  {shown(fault.words)}" + (f": {fault.shown}" if fault.shown else ""))
        print(f"  hurts {rule.hurts}")
        print(f"  from {rule.source}")
    for what, which in (("written", score.skipped), ("deleted", score.left)):
        for one in which:
            print(f"not {what}: {shown(one)}")
    print(f"{score.broker}: {verdict(score)} {again(score)}".rstrip())
