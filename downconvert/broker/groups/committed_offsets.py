"""Committed offsets: the state that results from the records of `__consumer_offsets`.

Offsets committed in a transaction are pending until the transaction's marker. A COMMIT marker makes
them count, unless a later offset is there already. An ABORT marker drops them. A tombstone also
removes pending ones. The rules are those of Kafka's GroupMetadataManager and OffsetMetadataManager.

Not here: the records in the topic (offsets_topic.py)."""

from collections import defaultdict
from collections.abc import Collection
from typing import TypeAlias

from downconvert.internal_topics.group_records import Committed, Partition, RecordKey

Producer: TypeAlias = tuple[int, int]  # partition of `__consumer_offsets`, producer id


# The offset of the record that commits, and what it commits. A higher offset is later.
_Placed: TypeAlias = tuple[int, Committed]


class CommittedOffsets:
    """Offsets by group and partition. All keys must be those of committed offsets."""

    def __init__(self) -> None:
        self._counted: defaultdict[str, dict[Partition, _Placed]] = defaultdict(dict)
        self._pending: dict[Producer, dict[str, dict[Partition, _Placed]]] = {}
        self._open: defaultdict[str, set[Producer]] = defaultdict(set)  # by group

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._counted or group_id in self._open

    # --- contents

    def ids(self) -> set[str]:
        """Groups with committed or pending offsets."""
        return self._counted.keys() | self._open.keys()

    def of(self, group_id: str) -> dict[Partition, Committed]:
        """The offsets that count as committed."""
        found = self._counted.get(group_id, {})
        return {partition: committed for partition, (_, committed) in found.items()}

    def pending(self, group_id: str) -> set[Partition]:
        """Partitions with offsets in open transactions."""
        producers = self._open.get(group_id, ())
        return {partition for one in producers for partition in self._pending[one][group_id]}

    def of_topics(self, names: Collection[str]) -> list[RecordKey]:
        """The keys of all groups' committed and pending offsets in these topics."""
        found = {
            RecordKey(group_id, partition)
            for group_id, offsets in self._counted.items()
            for partition in offsets
            if partition[0] in names
        }
        found.update(
            RecordKey(group_id, partition)
            for groups in self._pending.values()
            for group_id, offsets in groups.items()
            for partition in offsets
            if partition[0] in names
        )
        return list(found)

    def partitions(self, group_id: str) -> list[Partition]:
        """All partitions with committed or pending offsets of the group."""
        return sorted(self._counted.get(group_id, {}).keys() | self.pending(group_id))

    # --- changes

    def put(
        self,
        group_id: str,
        partition: Partition,
        committed: Committed,
        position: int,
        producer: Producer | None = None,
    ) -> None:
        """Adds an offset. `position`: the offset of the record that commits it. `producer`: the
        owner of its open transaction; None: the offset counts at once."""
        placed = position, committed
        if producer is None:
            self._counted[group_id][partition] = placed
        else:
            groups = self._pending.setdefault(producer, {})
            groups.setdefault(group_id, {})[partition] = placed
            self._open[group_id].add(producer)

    def remove(self, key: RecordKey, producer: Producer | None = None) -> None:
        """Removes an offset. `producer`: only the pending offset of its transaction; None: all
        offsets of the key."""
        assert key.partition is not None
        if producer is not None:
            self._take_back(key.group_id, key.partition, producer)
            return
        for one in list(self._open.get(key.group_id, ())):
            self._take_back(key.group_id, key.partition, one)
        counted = self._counted.get(key.group_id)
        if counted is not None:
            counted.pop(key.partition, None)
            if not counted:
                del self._counted[key.group_id]

    def end(self, producer: Producer, *, committed: bool) -> None:
        """Applies a transaction's marker. Offsets that are later in the log stay."""
        for group_id, offsets in self._pending.pop(producer, {}).items():
            self._close(group_id, producer)
            if not committed:
                continue
            counted = self._counted[group_id]
            for partition, placed in offsets.items():
                before = counted.get(partition)
                if before is None or before[0] < placed[0]:
                    counted[partition] = placed

    # --- details

    def _take_back(self, group_id: str, partition: Partition, producer: Producer) -> None:
        groups = self._pending.get(producer, {})
        offsets = groups.get(group_id, {})
        if offsets.pop(partition, None) is None or offsets:
            return
        del groups[group_id]
        self._close(group_id, producer)
        if not groups:
            del self._pending[producer]

    def _close(self, group_id: str, producer: Producer) -> None:
        producers = self._open[group_id]
        producers.discard(producer)
        if not producers:
            del self._open[group_id]
