"""A difference between the answers of two servers, and whether an answer has it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from .answers import Place
from .operations import Operation

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
