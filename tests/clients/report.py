"""The outcomes of all combinations as a document: docs/old-clients.md."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
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
    "gateway": "`downconvert gateway` before Kafka 4.4.0",
}
_HEAD: Final = """# Old clients

Which old clients read which topics. Real clients from their registries read from `downconvert
serve`, and through `downconvert gateway` from a broker of Apache Kafka 4.4.0 with the same logs.
The topics have v2 on disk. A run is right if the client gets all records that readers without
isolation should see, once and in order. Keys and values must be right, and timestamps and headers
as far as the client shows them.

"""
_TOPICS: Final = """
The topics (`tests/clients/topics.py`) have each codec, and all of them mixed in one log. Keys,
values and headers are null or empty in some, and times are append times. There are batches of one
and of four hundred records, and records of 1 MB. Logs begin inside a compressed batch, or are
compacted. Transactions are committed, aborted or open.

A client reads partitions that are assigned to it, or joins a group. Each client is a small program
in `tests/clients/programs`. The server has its default settings. They include rules for some
clients: kafka-node gets uncompressed records.

`make old-clients` makes this page again, in some hours: `python -m tests.clients.run --serve --json
build/serve.jsonl`, `python -m bench.gateway clients --json build/gateway.jsonl`, and `python -m
tests.clients.report build/serve.jsonl build/gateway.jsonl`. `python -m tests.clients.run --kafka
3.9.1` uses a broker of Apache Kafka instead.
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
        "Topics read correctly, of those tried. *Fetch* is the version that the client uses with "
        "`serve`.\nThe gateway offers versions up to 15.\n\n",
        *_table(servers),
    ]
    if wrong:
        parts += ["\n## What else fails\n\n", *wrong]
    return "".join(parts)


def _counted(title: str, outcomes: Sequence[Outcome]) -> str:
    counts = Counter(verdict(outcome) for outcome in outcomes)
    combinations = {outcome.combination for outcome in outcomes}
    listed = "; ".join(f"{counts[name]} {name}" for name in VERDICTS)
    line = f"* **{title}: {len(outcomes)} runs of {len(combinations)} combinations: {listed}.**"
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
    yield f"| client | version | pinned to | mode | Fetch |{_columns(servers)} {OWN} | {WRONG} |\n"
    yield f"| --- | --- | --- | --- | --- |{_rule(servers)} --- | --- |\n"
    found = {
        name: {one: list(some) for one, some in groupby(outcomes, lambda each: each.combination)}
        for name, outcomes in servers.items()
    }
    for one in dict.fromkeys(one for by_combination in found.values() for one in by_combination):
        of_one = {name: by_combination.get(one, []) for name, by_combination in found.items()}
        right = "".join(
            f" {sum(verdict(outcome) == RIGHT for outcome in outcomes)} / {len(outcomes)} |"
            for outcomes in of_one.values()
        )
        rest = " | ".join(_topics(of_one, name) for name in (OWN, WRONG))
        client = f"{one.client.name} | {one.client.version} | {one.pin} | {one.mode}"
        yield f"| {client} | {one.fetch} |{right} {rest} |\n"


def _topics(of_one: Mapping[str, Sequence[Outcome]], wanted: str) -> str:
    """Topics with this verdict, and where, unless everywhere."""
    where: dict[str, list[str]] = {}
    for name, outcomes in of_one.items():
        for outcome in outcomes:
            if verdict(outcome) == wanted:
                where.setdefault(outcome.topic, []).append(name)
    return ", ".join(
        topic if len(names) == len(of_one) else f"{topic} ({', '.join(names)})"
        for topic, names in where.items()
    )


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
