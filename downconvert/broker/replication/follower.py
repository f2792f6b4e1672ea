"""A broker as a follower: it fetches from one leader.

There is no I/O: `request` returns the bytes of the next request, `response` takes the bytes of its
response. The leader checks the replica's last epoch and says where the logs diverge. The replica
first truncates there, and then appends [KIP-595]. Responses are untrusted bytes. A response that no
longer fits the replica's state is ignored.

Not here: the choice of the leader (replica_manager.py), and connections to it."""

from dataclasses import dataclass
from itertools import groupby
from typing import Final

from downconvert.broker.partition import Partition
from downconvert.broker.state import BrokerState
from downconvert.protocol.decoder import Cursor, decode, reader
from downconvert.protocol.encoder import encode
from downconvert.protocol.errors import BadRequestError, ErrorCode
from downconvert.protocol.schemas import ApiKey, Message, is_flexible
from downconvert.storage import StorageError
from downconvert.storage.names import OFFSET_MAX
from records import RecordsError
from records.units import MiB

from .leader_epochs import NO_EPOCH, EpochEnd, epochs_of, latest

FETCH_VERSION: Final = 17
LIST_OFFSETS_VERSION: Final = 7
EARLIEST: Final = -2
WITHOUT_SESSION: Final = -1  # a session epoch: every request names all partitions
BACKOFF: Final = 1.0  # seconds; as replica.fetch.backoff.ms
CORRELATIONS: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class _Asked:
    """The state of a partition when a request was made."""

    partition: Partition
    leader_epoch: int
    offset: int

    def still_fits(self, leader: int) -> bool:
        partition = self.partition
        return (partition.leader, partition.leader_epoch, partition.end_offset) == (
            leader,
            self.leader_epoch,
            self.offset,
        )


class Follower:
    """The partitions that `leader` leads and of which `broker` has a replica. There is one request
    at a time. If the connection is lost, the next request replaces it."""

    def __init__(
        self,
        broker: BrokerState,
        leader: int,
        *,
        broker_epoch: int = -1,
        max_wait_ms: int = 500,
        max_bytes: int = 10 * MiB,
    ) -> None:
        self.leader = leader
        self._broker = broker
        self.broker_epoch = broker_epoch
        self._max_wait_ms = max_wait_ms
        self._max_bytes = max_bytes
        self._correlation_id = 0
        self._asked: dict[tuple[bytes, int], _Asked] = {}
        self._asked_start: dict[tuple[str, int], _Asked] = {}
        self._not_before: dict[Partition, float] = {}
        self._lost: set[Partition] = set()  # their offset is outside of the leader's log

    def request(self, now: float) -> bytes | None:
        """The next request's bytes, without their length; None: nothing to request."""
        self._asked, self._asked_start = {}, {}
        self._not_before = {p: at for p, at in self._not_before.items() if at > now}
        followed = [p for p in self._broker.topics.partitions() if self._is_due(p)]
        self._lost &= set(followed)
        if self._lost:
            return self._list_offsets([p for p in followed if p in self._lost])
        return self._fetch(followed) if followed else None

    def response(self, data: memoryview, now: float) -> None:
        """Takes the response to the last request, without its length.

        BadRequestError: the bytes are no such response, so the connection to the leader must be
        closed."""
        if self._asked_start:
            self._take_starts(self._parsed(ApiKey.ListOffsets, LIST_OFFSETS_VERSION, data), now)
            return
        body = self._parsed(ApiKey.Fetch, FETCH_VERSION, data)
        asked, self._asked = self._asked, {}
        for topic in body.responses:
            for result in topic.partitions:
                one = asked.pop((topic.topic_id, result.partition_index), None)
                if one is not None and one.still_fits(self.leader):
                    self._take(one.partition, result, now)

    # --- requests

    def _is_due(self, partition: Partition) -> bool:
        return (
            partition.leader == self.leader
            and partition.node_id in partition.replicas
            and partition not in self._not_before
        )

    def _fetch(self, partitions: list[Partition]) -> bytes:
        topics = []
        for name, group in groupby(partitions, key=lambda p: p.name.topic):
            topic_id = self._broker.topics[name].id
            asked = []
            for partition in group:
                index, end = partition.name.partition, partition.end_offset
                epoch = latest(epochs_of(partition.log))
                self._asked[topic_id, index] = _Asked(partition, partition.leader_epoch, end)
                asked.append(
                    Message(
                        partition=index,
                        current_leader_epoch=partition.leader_epoch,
                        fetch_offset=end,
                        last_fetched_epoch=epoch if end else NO_EPOCH,
                        log_start_offset=partition.start_offset,
                        partition_max_bytes=self._max_bytes,
                    )
                )
            topics.append(Message(topic_id=topic_id, partitions=asked))
        body = Message(
            replica_state=Message(
                replica_id=self._broker.config.node_id, replica_epoch=self.broker_epoch
            ),
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            max_bytes=self._max_bytes,
            session_epoch=WITHOUT_SESSION,
            topics=topics,
        )
        return self._frame(ApiKey.Fetch, FETCH_VERSION, body)

    def _list_offsets(self, partitions: list[Partition]) -> bytes:
        topics = []
        for name, group in groupby(partitions, key=lambda p: p.name.topic):
            asked = []
            for partition in group:
                index, epoch = partition.name.partition, partition.leader_epoch
                self._asked_start[name, index] = _Asked(partition, epoch, partition.end_offset)
                asked.append(
                    Message(partition_index=index, current_leader_epoch=epoch, timestamp=EARLIEST)
                )
            topics.append(Message(name=name, partitions=asked))
        body = Message(replica_id=self._broker.config.node_id, topics=topics)
        return self._frame(ApiKey.ListOffsets, LIST_OFFSETS_VERSION, body)

    def _frame(self, api: ApiKey, version: int, body: Message) -> bytes:
        self._correlation_id = (self._correlation_id + 1) % CORRELATIONS
        header = Message(
            request_api_key=api,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=f"follower-{self._broker.config.node_id}",
        )
        return encode("RequestHeader", 2, header) + encode(f"{api.name}Request", version, body)

    def _parsed(self, api: ApiKey, version: int, data: memoryview) -> Message:
        cursor = Cursor(data)
        header = reader("ResponseHeader", int(is_flexible(api, version)))(cursor)
        if header.correlation_id != self._correlation_id:
            raise BadRequestError(
                f"a response to request {header.correlation_id}, not {self._correlation_id}"
            )
        return decode(f"{api.name}Response", version, data[cursor.position :])

    # --- responses

    def _take(self, partition: Partition, result: Message, now: float) -> None:
        """Applies the leader's response for one partition."""
        diverging = result.diverging_epoch
        before = partition.end_offset, partition.high_watermark
        try:
            if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._lost.add(partition)
            elif result.error_code:
                self._not_before[partition] = now + BACKOFF
            elif diverging.end_offset >= 0:
                partition.truncate(EpochEnd(diverging.epoch, diverging.end_offset))
            else:
                data = memoryview(b"") if result.records is None else result.records
                partition.append_from_leader(data, result.high_watermark)
                partition.follow_start(result.log_start_offset)
        except (RecordsError, StorageError, OSError, ValueError):
            # The records were damaged in transit, or the disk is full. They are fetched again after
            # the backoff.
            self._not_before[partition] = now + BACKOFF
        if before != (partition.end_offset, partition.high_watermark):
            self._broker.purgatory.notify(partition.key)

    def _take_starts(self, body: Message, now: float) -> None:
        """Applies the start offsets of the leader's logs, for replicas outside of them."""
        asked, self._asked_start = self._asked_start, {}
        for topic in body.topics:
            for result in topic.partitions:
                one = asked.pop((topic.name, result.partition_index), None)
                if one is None or not one.still_fits(self.leader):
                    continue
                partition = one.partition
                self._lost.discard(partition)
                self._not_before[partition] = now + BACKOFF
                try:
                    if result.error_code or not 0 <= result.offset <= OFFSET_MAX:
                        continue
                    if result.offset > one.offset:
                        partition.restart_at(result.offset)
                    else:  # the point of divergence is unknown, so committed records stay
                        partition.truncate(EpochEnd(NO_EPOCH, -1))
                except (StorageError, OSError):
                    continue
