"""Runs applications that speak to Kafka against brokers and the gateway, and makes the table.

    python -m tests.clients.applications                                  # all, an hour
    python -m tests.clients.applications --only rsyslog --target 4.4.0
    python -m tests.clients.applications --markdown docs/applications.md

Outcomes are kept in `build/applications/results.json`. A repeated run replaces its former outcome.
--markdown writes all that are kept, with --no-run without running anything."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fetching import InstallError

from . import targets
from .catalogue import APPLICATIONS, NOT_RUN
from .outcome import Outcome, merged
from .packages import HOME
from .table import document
from .target_names import GATEWAY, TARGETS
from .trials import SECONDS, tried

KEPT = HOME / "results.json"


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    kept = _kept()
    if not asked.no_run:
        kept = _run(asked, kept)
    if asked.markdown:
        asked.markdown.write_text(document(APPLICATIONS, kept, NOT_RUN))
    return 0


def _run(asked: argparse.Namespace, kept: list[Outcome]) -> list[Outcome]:
    words = [word.lower() for word in asked.only] or [""]
    chosen = [one for one in APPLICATIONS if any(word in one.name.lower() for word in words)]
    with targets.started(asked.target or TARGETS) as started:
        for one in chosen:
            settings = [setting for setting in one.settings if asked.setting in setting.name]
            try:
                for outcome in tried(one, started, settings, asked.seconds):
                    _say(outcome)
                    kept = merged(_kept(), [outcome])  # others may run, too
                    KEPT.write_text(json.dumps([each.as_json() for each in kept], indent=1))
            except InstallError as error:
                print(f"{one.name}: not to be had: {error}", flush=True)
    return kept


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.clients.applications",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORDS", help="applications that have these"
    )
    parser.add_argument("--setting", default="", metavar="WORDS", help="settings that have these")
    parser.add_argument(
        "--target",
        action="append",
        metavar="NAME",
        help=f"a version of Kafka, or {GATEWAY}VERSION; {', '.join(TARGETS)}",
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for a trial")
    parser.add_argument("--no-run", action="store_true", help="only write the document")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="docs/applications.md")
    return parser


def _kept() -> list[Outcome]:
    return [Outcome(**row) for row in json.loads(KEPT.read_text())] if KEPT.exists() else []


def _say(outcome: Outcome) -> None:
    result = outcome.wrong or "right"
    twice = f", {outcome.twice} twice" if outcome.twice else ""
    one = f"{outcome.application} · {outcome.setting} · {outcome.target}"
    print(f"{one}: {result}{twice}  {outcome.complaint}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
