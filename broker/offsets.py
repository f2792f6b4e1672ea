"""What groups have committed, in memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from broker.errors import ErrorCode
from broker.group import Group

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

    def commit(
        self, group_id: str, offsets: Mapping[Partition, Committed], _now: float
    ) -> ErrorCode:
        self._groups.setdefault(group_id, {}).update(offsets)
        return ErrorCode.NONE

    def store(self, _group: Group, _now: float) -> ErrorCode:
        return ErrorCode.NONE

    def delete(self, group: Group, _now: float) -> ErrorCode:
        self._groups.pop(group.id, None)
        return ErrorCode.NONE
