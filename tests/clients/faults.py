"""What fails by a client's own fault, whatever the server.

Each is declared with its reason, and none is hidden: the table of results counts them apart."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.clients.combinations import Combination


@dataclass(frozen=True, slots=True)
class Fault:
    """Topics that some combinations cannot read as they should, and why."""

    clients: Callable[[Combination], bool]
    topics: frozenset[str]
    why: str


FAULTS: Final[list[Fault]] = []


def fault_of(combination: Combination, topic: str) -> str:
    """Why this combination cannot be expected to read this topic; empty if it can."""
    for fault in FAULTS:
        if topic in fault.topics and fault.clients(combination):
            return fault.why
    return ""
