"""What groups have committed, in memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

Partition: TypeAlias = tuple[str, int]  # topic, index

NO_TIME: Final = -1


@dataclass(frozen=True, slots=True)
class Committed:
    """A position of a group in a partition. Times in milliseconds since the epoch, or -1."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_time: int = NO_TIME
    expire_time: int = NO_TIME  # as versions 2 to 4 of OffsetCommit ask for


class Offsets:
    """By group."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Partition, Committed]] = {}

    def of(self, group_id: str) -> Mapping[Partition, Committed]:
        return dict(self._groups.get(group_id, {}))

    def commit(self, group_id: str, offsets: Mapping[Partition, Committed]) -> None:
        self._groups.setdefault(group_id, {}).update(offsets)
