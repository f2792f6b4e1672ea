"""Failures that are a client's own fault, with any server.

Each is declared with its reason, and none is hidden: the table of results counts them apart. A
declared fault does not always show.

Not here: which combinations there are (combinations.py)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .combinations import Combination


@dataclass(frozen=True, slots=True)
class Fault:
    """Topics that some combinations cannot read as they should, and why."""

    clients: Callable[[Combination], bool]
    topics: frozenset[str]
    why: str


def of(name: str, versions: str = "", *, magic: int | None = None) -> Callable[[Combination], bool]:
    """Combinations of a client: of some versions, or that are given some format."""

    def matches(one: Combination) -> bool:
        return (
            one.client.name == name
            and (not versions or one.client.version in versions.split())
            and magic in (None, one.magic)
        )

    return matches


def _fault(clients: Callable[[Combination], bool], topics: str, why: str) -> Fault:
    return Fault(clients, frozenset(topics.split()), why)


GAPS: Final = "compacted compacted-gzip transactions"

FAULTS: Final = (
    _fault(of("pykafka"), GAPS, "It stays at a gap in the offsets for ever."),
    _fault(
        of("pykafka", magic=1),
        "append-time",
        "It fails on the attribute bit of append time.",
    ),
    _fault(
        of("kafka-python", "1.4.7", magic=2),
        "headers",
        "It fails on a header whose value is null.",
    ),
    _fault(
        of("kafka-python", "1.4.7 2.0.2", magic=2),
        "transactions",
        "It delivers control records to its user.",
    ),
    _fault(of("kafkajs", "1.4.6"), "transactions", "It delivers control records to its user."),
    _fault(of("kafka-go", "0.4.51"), "transactions", "It delivers control records to its user."),
    _fault(of("librdkafka", "1.4.2", magic=2), "zstd mixed", "It is built without zstd here."),
    _fault(
        of("kafka-rust"),
        "transactions",
        "It takes an empty response below the end of the log for a message that is too large.",
    ),
    *(
        _fault(clients, "append-time", "It shows the producers' time instead of the batch's.")
        for clients in (
            of("kafkajs", "1.4.6 1.8.1"),
            of("sarama", "1.19.0", magic=2),
            of("kafka-go", "0.4.51"),
        )
    ),
)


def fault_of(combination: Combination, topic: str) -> str:
    """Why this combination cannot be expected to read this topic; empty if it can."""
    for fault in FAULTS:
        if topic in fault.topics and fault.clients(combination):
            return fault.why
    return ""
