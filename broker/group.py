"""One group."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """Who somebody says to be in a group."""

    member_id: str
    generation: int = -1
    instance_id: str | None = None
