"""A transactional producer without sockets, that asks for one thing at a time.

Not here: real producers (test_transaction_clients.py)."""

from collections.abc import Iterable
from typing import Final

from downconvert.broker import Broker
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from records import Record, TimestampType, build
from records.formats import V2

from .asking import ask

NOW: Final = 1_700_000_000.0
TIMEOUT_MS: Final = 60_000
At = tuple[str, int]  # topic, partition
ZERO: Final[At] = ("t", 0)
ONE: Final[At] = ("t", 1)


class Producing:
    """One producer of a transactional id."""

    def __init__(self, broker: Broker, name: str = "tx", now: float = NOW) -> None:
        self.broker = broker
        self.name = name
        self.now = now
        self.id, self.epoch = -1, -1
        self.sequences: dict[At, int] = {}

    def begin(
        self, *, version: int = 5, timeout_ms: int = TIMEOUT_MS, goes_on: bool = False
    ) -> ErrorCode:
        """InitProducerId; goes_on: with the id and the epoch that it has."""
        body = Message(transactional_id=self.name, transaction_timeout_ms=timeout_ms)
        if goes_on:
            body.producer_id, body.producer_epoch = self.id, self.epoch
        found = ask(self.broker, ApiKey.InitProducerId, version, body, now=self.now)
        if not found.error_code:
            self.id, self.epoch = found.producer_id, found.producer_epoch
            self.sequences = {}
        return ErrorCode(found.error_code)

    def add(self, *names: At, version: int = 3) -> list[ErrorCode]:
        """AddPartitionsToTxn: the error of each."""
        body = Message(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[Message(name=topic, partitions=[at]) for topic, at in names],
        )
        found = ask(self.broker, ApiKey.AddPartitionsToTxn, version, body, now=self.now)
        return [
            ErrorCode(one.partition_error_code)
            for topic in found.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ]

    def send(
        self,
        value: bytes = b"v",
        at: At = ("t", 0),
        *,
        version: int = 9,
        transactional: bool = True,
        retry: bool = False,
    ) -> ErrorCode:
        """Produce, of one record; retry: the last one again."""
        sequence = self.sequences.get(at, 0) - retry
        record = Record(0, int(self.now * 1000), TimestampType.CREATE, None, value)
        data = build(
            [record],
            magic=V2,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        topic, index = at
        partition = Message(index=index, records=data)
        body = Message(
            transactional_id=self.name if transactional else None,
            acks=-1,
            timeout_ms=1,
            topic_data=[Message(name=topic, partition_data=[partition])],
        )
        found = ask(self.broker, ApiKey.Produce, version, body, now=self.now)
        code = ErrorCode(found.responses[0].partition_responses[0].error_code)
        if not code and not retry:
            self.sequences[at] = sequence + 1
        return code

    def add_offsets(self, group: str = "g", version: int = 4) -> ErrorCode:
        """AddOffsetsToTxn."""
        body = Message(
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        found = ask(self.broker, ApiKey.AddOffsetsToTxn, version, body, now=self.now)
        return ErrorCode(found.error_code)

    def commit_offset(
        self, offset: int, group: str = "g", at: At = ("t", 0), *, version: int = 4, **fields: int
    ) -> ErrorCode:
        """TxnOffsetCommit."""
        partition = Message(
            partition_index=at[1], committed_offset=offset, committed_metadata="said"
        )
        body = Message(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[Message(name=at[0], partitions=[partition])],
            **fields,
        )
        found = ask(self.broker, ApiKey.TxnOffsetCommit, version, body, now=self.now)
        return ErrorCode(found.topics[0].partitions[0].error_code)

    def end(self, *, commits: bool = True, version: int = 4) -> ErrorCode:
        """EndTxn."""
        body = Message(
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commits,
        )
        found = ask(self.broker, ApiKey.EndTxn, version, body, now=self.now)
        return ErrorCode(found.error_code)

    def write(self, values: Iterable[bytes], at: At = ("t", 0)) -> None:
        """Adds a partition, and sends."""
        assert self.add(at) == [ErrorCode.NONE]
        for value in values:
            assert self.send(value, at) is ErrorCode.NONE


def state(broker: Broker, name: str = "tx") -> Message:
    """DescribeTransactions."""
    body = Message(transactional_ids=[name])
    found: Message = ask(broker, ApiKey.DescribeTransactions, 0, body, now=NOW)
    one: Message = found.transaction_states[0]
    return one


def committed(broker: Broker, at: At = ("t", 0)) -> list[bytes | None]:
    """The records that a consumer of `read_committed` gets."""
    log = broker.topics[at[0]].partitions[at[1]].log
    return [record.value for record in log.records(isolation="read_committed")]


def is_stable(broker: Broker, at: At = ("t", 0)) -> bool:
    """Whether no transaction is open there."""
    partition = broker.topics[at[0]].partitions[at[1]]
    return partition.last_stable_offset == partition.end_offset
