"""The coordinator of all groups: finds the group that a request is for."""

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING

from broker.errors import ErrorCode
from broker.group import Claim
from broker.offsets import Committed, Offsets, Partition

if TYPE_CHECKING:
    from broker.broker import Broker


class Groups:
    """By id. Any thread may call anything."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._lock = Lock()
        self._offsets = Offsets()

    def committed(self, group_id: str, _now: float) -> Mapping[Partition, Committed]:
        with self._lock:
            return self._offsets.of(group_id)

    def commit(
        self, group_id: str, claim: Claim, offsets: Mapping[Partition, Committed], _now: float
    ) -> ErrorCode:
        """Keeps offsets, or says why not."""
        if claim.generation >= 0:
            return ErrorCode.ILLEGAL_GENERATION
        with self._lock:
            self._offsets.commit(group_id, offsets)
        return ErrorCode.NONE
