"""The outcomes of all combinations as a document: docs/old-clients.md."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from .combinations import Combination
from .faults import FAULTS, fault_of
from .outcome import Outcome

RIGHT, OWN, WRONG = "right", "wrong by the client's own fault", "wrong"
VERDICTS: Final = (RIGHT, OWN, WRONG)

_HEAD: Final = """# Old clients

Real clients, as their registries have them, read topics with v2 on disk from `downconvert serve`.
Expected are all records that are there for readers without isolation, once, in order, with keys,
values and, as far as the client can tell them, timestamps and headers.

`python -m tests.clients.run --serve --markdown docs/old-clients.md` makes this file again;
`--kafka 3.9.1` asks a broker of Apache Kafka instead, with the same logs.

"""
_TOPICS: Final = """
The topics (`tests/clients/topics.py`): each codec; all of them mixed in one log; keys, values and
headers that are null or empty; append time; small records, one a batch and four hundred in one;
records of 1 MB; a log that begins in the middle of a compressed batch; compacted logs of small
segments whose batches have lost records at their ends, or all of them; and transactions that are
committed, aborted or open, with a marker or with open data at the end.

A client is asked for partitions that are assigned to it, or joins a group. Each is a small program
in `tests/clients/programs`, fetched with its registry's own tool into `build/clients`. Nothing is
set on the server; what it does for some clients by itself, such as sending kafka-node nothing that
is compressed, is among its defaults.
"""


def verdict(outcome: Outcome) -> str:
    if not outcome.wrong:
        return RIGHT
    return OWN if fault_of(outcome.combination, outcome.topic) else WRONG


def document(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(verdict(outcome) for outcome in outcomes)
    combinations = {outcome.combination for outcome in outcomes}
    said = "; ".join(f"{counts[name]} {name}" for name in VERDICTS)
    parts = [
        _HEAD,
        f"**{len(outcomes)} runs of {len(combinations)} combinations: {said}.**",
        f"{_again(outcomes)}\n",
        _TOPICS,
        "\n## What fails by the client's own fault\n\n",
        *_faults(outcomes),
        "\n## Results\n\n",
        "Topics read rightly, of those tried. Fetch: the version asked.\n\n",
        *_table(outcomes),
    ]
    wrong = [outcome for outcome in outcomes if verdict(outcome) == WRONG]
    if wrong:
        parts += ["\n## What else fails\n\n", *map(_failure, wrong)]
    return "".join(parts)


def _again(outcomes: Sequence[Outcome]) -> str:
    """On a busy machine some need longer, and that is said."""
    again = sum(outcome.again and verdict(outcome) == RIGHT for outcome in outcomes)
    return f"\n{again} of the right ones only when they were asked again and given longer." * (
        again > 0
    )


def _faults(outcomes: Sequence[Outcome]) -> Iterable[str]:
    yield "| clients | topics | runs | why |\n| --- | --- | --- | --- |\n"
    for why in dict.fromkeys(fault.why for fault in FAULTS):
        own = [
            outcome
            for outcome in outcomes
            if verdict(outcome) == OWN and fault_of(outcome.combination, outcome.topic) == why
        ]
        if own:
            clients = _listed(_short(outcome.combination) for outcome in own)
            topics = _listed(outcome.topic for outcome in own)
            yield f"| {clients} | {topics} | {len(own)} | {why} |\n"


def _table(outcomes: Sequence[Outcome]) -> Iterable[str]:
    yield "| client | version | pinned to | mode | Fetch | right | the client's own | wrong |\n"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
    for one, found in groupby(outcomes, lambda outcome: outcome.combination):
        of_one = list(found)
        by_verdict = {
            name: [outcome.topic for outcome in of_one if verdict(outcome) == name]
            for name in VERDICTS
        }
        right = f"{len(by_verdict[RIGHT])} / {len(of_one)}"
        rest = " | ".join(", ".join(by_verdict[name]) for name in (OWN, WRONG))
        client = f"{one.client.name} | {one.client.version} | {one.pin} | {one.mode}"
        yield f"| {client} | {one.fetch} | {right} | {rest} |\n"


def _failure(outcome: Outcome) -> str:
    return f"- {outcome.combination}, {outcome.topic}: {' '.join(outcome.wrong.split())[:200]}\n"


def _short(one: Combination) -> str:
    return f"{one.client.name} {one.client.version}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
