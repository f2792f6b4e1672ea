"""Checks the invariants of a simulated cluster, from the observations of its clients.

If a client has read a record at an offset, that offset has the same record for ever. A record that
was acknowledged with acks all is in the log at the end. When a record is acknowledged, and whenever
a consumer reads it, min.insync.replicas brokers have it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from downconvert.storage import TopicPartition

# Checks that enough brokers hold a record: its partition, its offset, and why they must.
CheckHeld = Callable[[TopicPartition, int, str], None]


class InvariantError(Exception):
    """An invariant does not hold."""


class Written(NamedTuple):
    """The content of a record: its producer, and its number among that producer's records in the
    partition."""

    producer: int
    number: int

    @classmethod
    def of(cls, value: bytes) -> "Written":
        producer, number, _ = value.split(b" ", 2)
        return cls(int(producer), int(number))

    def value(self, size: int) -> bytes:
        return (b"%d %d " % self).ljust(size, b".")


@dataclass(slots=True)
class Promised:
    """The clients' observations of one partition."""

    records: dict[int, bytes] = field(default_factory=dict)  # by offset; the value
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    # High watermarks by epoch, for any client, and by epoch, broker and client.
    by_epoch: dict[int, int] = field(default_factory=dict)
    seen_by: dict[tuple[int, int, str], int] = field(default_factory=dict)


class Truth:
    """The clients' observations of all partitions."""

    def __init__(self, partitions: list[TopicPartition]) -> None:
        self.partitions = {name: Promised() for name in partitions}

    def seen(self, name: TopicPartition, offset: int, value: bytes, who: str) -> None:
        """Notes that a client has read a record, or that a producer's record was acknowledged."""
        known = self.partitions[name].records.setdefault(offset, value)
        if known != value:
            raise InvariantError(
                f"{who} gets {_short(value)} at offset {offset} of {name}, where before there "
                f"was {_short(known)}"
            )

    def acknowledged(self, name: TopicPartition, offset: int, value: bytes, who: str) -> None:
        """Notes that a producer's record was acknowledged with acks all."""
        self.seen(name, offset, value, who)
        self.partitions[name].acknowledged[offset] = value

    def saw_high_watermark(
        self,
        name: TopicPartition,
        offset: int,
        broker: int,
        epoch: int,
        who: str,
        *,
        certain: bool,
    ) -> None:
        """Notes a high watermark that a consumer got from the leader of an epoch. `certain`: that
        leader knew everything that earlier leaders had committed."""
        promised = self.partitions[name]
        known = promised.seen_by.get((epoch, broker, who), 0)
        if certain:
            earlier = (high for then, high in promised.by_epoch.items() if then < epoch)
            known = max(known, *earlier, 0)
        if offset < known:
            raise InvariantError(
                f"the high watermark of {name} decreases from {known} to {offset}, which {who} got "
                f"from broker {broker} in epoch {epoch}"
            )
        promised.seen_by[epoch, broker, who] = offset
        promised.by_epoch[epoch] = max(promised.by_epoch.get(epoch, 0), offset)

    def check_log(self, name: TopicPartition, values: list[bytes]) -> None:
        """Checks the values in the log at the end, from offset 0 on."""
        promised = self.partitions[name]
        for offset, value in sorted(promised.records.items()):
            if offset >= len(values):
                what = "acknowledged" if offset in promised.acknowledged else "given to a consumer"
                raise InvariantError(
                    f"offset {offset} of {name}, which was {what}, is lost: the log ends at "
                    f"{len(values)}"
                )
            if values[offset] != value:
                raise InvariantError(
                    f"offset {offset} of {name} was {_short(value)} and is {_short(values[offset])}"
                )


def _short(value: bytes) -> str:
    return value[:24].decode(errors="replace").strip()
