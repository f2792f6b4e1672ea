"""The outcomes of all combinations as a document: docs/old-clients.md."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from .combinations import Combination
from .faults import FAULTS, fault_of
from .outcome import Outcome, kept

RIGHT, OWN, WRONG = "right", "wrong by the client's own fault", "wrong"
DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "old-clients.md"
VERDICTS: Final = (RIGHT, OWN, WRONG)

# Where they read from, as the tables call it, and in words.
SERVERS: Final = {
    "serve": "`downconvert serve`",
    "gateway": "`downconvert gateway` in front of Kafka 4.4.0",
}
_HEAD: Final = """# Old clients

Real old clients, from their registries, read 14 topics: from `downconvert serve`, and through
`downconvert gateway` from a broker of Apache Kafka 4.4.0 with the same logs. The topics have v2 on
disk. A run is right if the client gets all records that readers without isolation should see, once
and in order. Keys and values must be right, and timestamps and headers as far as the client shows
them.

"""
_TOPICS: Final = """
The topics (`tests/clients/topics.py`) have each codec, and all of them mixed in one log. Keys,
values and headers are null or empty in some, and times are append times. There are batches of one
and of four hundred records, and records of 1 MB. Logs begin inside a compressed batch, or are
compacted. Transactions are committed, aborted or open.

A client reads partitions that are assigned to it, or joins a group. The programs are in
`tests/clients/programs`. The servers have their default settings: kafka-node gets uncompressed
records.

`make old-clients` runs everything and writes this page, in some hours. `python -m tests.clients.run
--kafka 3.9.1` uses a broker of Apache Kafka instead.
"""
_RESULTS: Final = """Topics read correctly, of those tried, in all modes and pinned protocols
together. *Fetch* are the versions that the client uses with `serve`. The gateway offers versions up
to 15. A bold number contains failures that are no known fault of the client: they are listed below.

"""


def verdict(outcome: Outcome) -> str:
    if not outcome.wrong:
        return RIGHT
    return OWN if fault_of(outcome.combination, outcome.topic) else WRONG


def document(servers: Mapping[str, Sequence[Outcome]]) -> str:
    """`servers`: outcomes by names of SERVERS."""
    wrong = [
        f"- {name}: {outcome.combination}, {outcome.topic}: "
        f"{' '.join(outcome.wrong.split())[:200]}\n"
        for name, outcomes in servers.items()
        for outcome in outcomes
        if verdict(outcome) == WRONG
    ]
    parts = [
        _HEAD,
        *(_counted(SERVERS[name], outcomes) for name, outcomes in servers.items()),
        _TOPICS,
        "\n## What fails by the client's own fault\n\n",
        *_faults(servers),
        "\n## Results\n\n",
        _RESULTS,
        *_table(servers),
    ]
    if wrong:
        parts += ["\n## What else fails\n\n", *wrong]
    return "".join(parts)


def _counted(title: str, outcomes: Sequence[Outcome]) -> str:
    counts = Counter(verdict(outcome) for outcome in outcomes)
    combinations = {outcome.combination for outcome in outcomes}
    listed = "; ".join(f"{counts[name]} {name}" for name in VERDICTS)
    line = f"* **{title}: {len(outcomes)} runs of {len(combinations)} combinations:**\n  {listed}."
    # On a busy machine some need longer, and a note names them.
    again = sum(outcome.again and verdict(outcome) == RIGHT for outcome in outcomes)
    if again:
        line += f"\n  {again} of the right ones only when they were asked again and given longer."
    return line + "\n"


def _faults(servers: Mapping[str, Sequence[Outcome]]) -> Iterable[str]:
    yield f"| clients | topics |{_columns(servers)} why |\n| --- | --- |{_rule(servers)} --- |\n"
    for why in dict.fromkeys(fault.why for fault in FAULTS):
        by_server = [
            [one for one in outcomes if fault_of(one.combination, one.topic) == why and one.wrong]
            for outcomes in servers.values()
        ]
        own = [outcome for outcomes in by_server for outcome in outcomes]
        if own:
            clients = _listed(_short(outcome.combination) for outcome in own)
            topics = _listed(outcome.topic for outcome in own)
            runs = "".join(f" {len(outcomes)} |" for outcomes in by_server)
            yield f"| {clients} | {topics} |{runs} {why} |\n"


def _table(servers: Mapping[str, Sequence[Outcome]]) -> Iterable[str]:
    """A row for each client and version."""
    yield f"| client | pinned to | mode | Fetch |{_columns(servers)}\n"
    yield f"| --- | --- | --- | --- |{_rule(servers)}\n"
    every = [outcome for outcomes in servers.values() for outcome in outcomes]
    for client in dict.fromkeys(_short(outcome.combination) for outcome in every):
        combinations = [one.combination for one in every if _short(one.combination) == client]
        pins = _listed(one.pin for one in combinations)
        modes = _listed(one.mode for one in combinations)
        fetch = _listed(str(number) for number in sorted({one.fetch for one in combinations}))
        cells = "".join(
            f" {_cell([one for one in outcomes if _short(one.combination) == client])} |"
            for outcomes in servers.values()
        )
        yield f"| {client} | {pins} | {modes} | {fetch} |{cells}\n"


def _cell(outcomes: Sequence[Outcome]) -> str:
    """How many of them are right; bold if one is wrong and no fault of the client explains it."""
    verdicts = Counter(map(verdict, outcomes))
    cell = f"{verdicts[RIGHT]} / {len(outcomes)}"
    return f"**{cell}**" if verdicts[WRONG] else cell


def _columns(servers: Iterable[str]) -> str:
    return "".join(f" {name} |" for name in servers)


def _rule(servers: Iterable[str]) -> str:
    return "".join(" --- |" for _ in servers)


def _short(one: Combination) -> str:
    return f"{one.client.name} {one.client.version}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.clients.report", description="Writes docs/old-clients.md."
    )
    for name, title in SERVERS.items():
        parser.add_argument(name, type=Path, metavar=name.upper(), help=f"--json, of {title}")
    asked = vars(parser.parse_args(arguments))
    DOCUMENT.write_text(document({name: list(kept(asked[name])) for name in SERVERS}))


if __name__ == "__main__":
    main(sys.argv[1:])
