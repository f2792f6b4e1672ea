"""A difference between the responses of two servers, and whether a response has it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from .operations import Operation
from .responses import Place

Applies: TypeAlias = Callable[[Operation, Place], bool]


@dataclass(frozen=True, slots=True)
class MayDiffer:
    """A difference: what is asked, what each says, and why."""

    asked: str
    kafka: str
    here: str
    reason: str
    applies: Applies
    keeps_step: bool = True  # whether the servers are in the same state afterwards
