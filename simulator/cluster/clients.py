"""The common part of simulated producers and consumers: connections, requests, metadata."""

from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from downconvert.protocol.decoder import Cursor, decode, reader
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import ApiKey, Message, is_flexible

from .context import Context
from .network import Connection
from .node import Tag
from .truth import InvariantError

TOPIC: Final = "t"
METADATA_VERSION: Final = 7  # the first with leader epochs
TIMEOUT: Final = 2.0  # seconds
BACKOFF: Final = 0.1  # seconds
CORRELATION_ID: Final = 1

# Errors after which a client retries, perhaps at another broker.
RETRIABLE: Final = {
    3,  # UNKNOWN_TOPIC_OR_PARTITION
    5,  # LEADER_NOT_AVAILABLE
    6,  # NOT_LEADER_OR_FOLLOWER
    7,  # REQUEST_TIMED_OUT
    19,  # NOT_ENOUGH_REPLICAS
    20,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
    56,  # KAFKA_STORAGE_ERROR
    74,  # FENCED_LEADER_EPOCH
    75,  # UNKNOWN_LEADER_EPOCH
    78,  # OFFSET_NOT_AVAILABLE
    100,  # UNKNOWN_TOPIC_ID
}

# The response, and the state of the broker when it was made. None if there was no response.
OnResponse = Callable[[Message | None, Tag], None]


class Leader(NamedTuple):
    """The leader of a partition, from a broker's metadata."""

    node: int
    epoch: int


class _Line:
    """A client's connection to one broker: one request at a time."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.number = 0  # of the current request
        self.is_busy = False


class SimulatedClient:
    """A host that sends requests to brokers."""

    def __init__(self, context: Context, host: str, client_id: str) -> None:
        self.context = context
        self.host = host
        self.random = Random(f"{context.options.seed}/{host}")
        self.leaders: dict[int, Leader] = {}  # by partition
        self._client_id = client_id
        self._lines = {node: _Line() for node in range(len(context.machines))}
        self._is_refreshing = False

    @property
    def now(self) -> float:
        return self.context.timeline.now

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self.context.timeline.after(seconds, action)

    def is_busy(self, node: int) -> bool:
        """Whether a request to that broker waits for its response."""
        return self._lines[node].is_busy

    def ask(
        self,
        node: int,
        api: ApiKey,
        version: int,
        body: Message,
        on_response: OnResponse,
        *,
        is_answered: bool = True,
    ) -> None:
        """Sends a request to a broker, unless another request of this client is open there.
        `is_answered`: False for a request without a response."""
        line = self._lines[node]
        assert not line.is_busy
        flexible = is_flexible(api, version)
        header = Message(
            request_api_key=api,
            request_api_version=version,
            correlation_id=CORRELATION_ID,
            client_id=self._client_id,
        )
        data = encode("RequestHeader", 2 if flexible else 1, header)
        data += encode(f"{api.name}Request", version, body)
        line.number += 1
        line.is_busy = is_answered
        number = line.number

        def answered(response: bytes, tag: Tag) -> None:
            if line.number == number and line.is_busy:
                line.is_busy = False
                on_response(self._parsed(api, version, response), tag)

        def failed() -> None:
            if (
                line.number == number and not line.is_busy
            ):  # no response was expected, but the connection ended
                self._forget_all_of(node)
            elif line.number == number:
                line.is_busy = False
                if line.connection is not None:
                    line.connection.close()
                    line.connection = None
                on_response(None, {})

        if line.connection is None or line.connection.is_closed:
            line.connection = self.context.network.connect(
                self.host, self.context.machines[node], lambda *_: None, lambda: None
            )
        line.connection.listen(answered, failed)
        line.connection.send(data)
        if is_answered:
            self.later(TIMEOUT, lambda: failed() if line.is_busy else None)

    def refresh(self, then: Callable[[], None]) -> None:
        """Requests metadata from any broker: the leaders of all partitions."""
        if self._is_refreshing:
            return
        idle = [node for node, line in sorted(self._lines.items()) if not line.is_busy]
        if not idle:
            return
        self._is_refreshing = True

        def answered(body: Message | None, _tag: Tag) -> None:
            self._is_refreshing = False
            for topic in [] if body is None else body.topics:
                for partition in topic.partitions:
                    found = Leader(partition.leader_id, partition.leader_epoch)
                    known = self.leaders.get(partition.partition_index, Leader(-1, -1))
                    if found.epoch >= known.epoch:
                        self.leaders[partition.partition_index] = found
            then()

        body = Message(topics=[Message(name=TOPIC)], allow_auto_topic_creation=False)
        self.ask(self.random.choice(idle), ApiKey.Metadata, METADATA_VERSION, body, answered)

    def by_leader(self, partitions: list[int]) -> dict[int, list[int]]:
        """The partitions by known leader, without partitions that have none."""
        found: dict[int, list[int]] = {}
        for index in partitions:
            leader = self.leaders.get(index)
            if leader is not None and leader.node >= 0:
                found.setdefault(leader.node, []).append(index)
        return found

    def forget(self, index: int, known: Leader) -> None:
        """Notes that a known leader is no longer the leader."""
        if self.leaders.get(index) == known:
            self.leaders[index] = Leader(-1, known.epoch)

    def _forget_all_of(self, node: int) -> None:
        for index, leader in self.leaders.items():
            if leader.node == node:
                self.leaders[index] = Leader(-1, leader.epoch)

    def _parsed(self, api: ApiKey, version: int, data: bytes) -> Message:
        view = memoryview(data)
        cursor = Cursor(view)
        header: Any = reader("ResponseHeader", int(is_flexible(api, version)))(cursor)
        if header.correlation_id != CORRELATION_ID:
            raise InvariantError(f"{self.host} gets the response to another request")
        return decode(f"{api.name}Response", version, view[cursor.position :])
