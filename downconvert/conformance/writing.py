"""Writes topics to a broker, like a current producer.

Not here: their contents (plans.py), reading them (judge.py)."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from downconvert.protocol.schemas import ApiKey, Message, schema

from .connection import PLAIN, Access, ConformanceError, Connection, named
from .plans import KEPT, Batch, Plan

# The newest versions in use here. Later versions have the same meaning in another form.
NEWEST: Final = {
    ApiKey.Produce: 8,
    ApiKey.CreateTopics: 4,
    ApiKey.DeleteTopics: 3,
    ApiKey.Metadata: 12,
    ApiKey.FindCoordinator: 3,
    ApiKey.InitProducerId: 3,
    ApiKey.AddPartitionsToTxn: 3,
    ApiKey.EndTxn: 3,
}
TRANSACTIONS: Final = (ApiKey.AddPartitionsToTxn, ApiKey.EndTxn)
PATIENCE: Final = 60.0  # seconds, for a topic, a leader, a coordinator
PAUSE: Final = 0.05
# Retried: coordinators, leaders and markers need some time.
UNKNOWN_TOPIC, NO_LEADER = 3, 5
NO_BROKER: Final = 38  # no broker can hold a replica, because the controller knows none yet
_LATER: Final = {UNKNOWN_TOPIC, NO_LEADER, 6, 9, 14, 15, 16, NO_BROKER, 51}
INVALID_CONFIG: Final = 40
UNAUTHORIZED: Final = (29, 31)  # TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED
_Response = TypeVar("_Response")


class RefusedError(ConformanceError):
    """A topic cannot be made as planned. The others can be judged."""


class ForbiddenError(ConformanceError):
    """Topics cannot be created, because the client lacks the right or the broker only reads."""


@dataclass(frozen=True, slots=True)
class Written:
    """An existing topic, with the offset of each batch."""

    plan: Plan
    name: str
    id: bytes
    leader: tuple[str, int]
    offsets: tuple[int, ...]
    first_size: int  # bytes of the first batch


class Cluster:
    """The brokers behind one address, and the versions that they offer."""

    def __init__(self, host: str, port: int, access: Access = PLAIN) -> None:
        self._access = access
        self._first = Connection(host, port, access)
        self._connections: dict[tuple[str, int], Connection] = {}
        self.silent: set[int] = set()  # versions of Fetch that were not answered once
        response = self._first.ask(ApiKey.ApiVersions, 0, Message())
        self.versions = {
            one.api_key: range(one.min_version, one.max_version + 1) for one in response.api_keys
        }

    def close(self) -> None:
        for connection in (self._first, *self._connections.values()):
            connection.close()

    def at(self, address: tuple[str, int]) -> Connection:
        """A connection to one of its brokers."""
        if address not in self._connections:
            self._connections[address] = Connection(*address, self._access)
        return self._connections[address]

    def renew(self, address: tuple[str, int]) -> None:
        """Connects again, after a connection that was closed or had an invalid response."""
        self._connections.pop(address).close()
        self.at(address)

    def offers(self, api: ApiKey) -> range:
        """The versions that it offers and that are known here."""
        served = self.versions.get(api, range(0))
        return range(served.start, min(served.stop, schema(f"{api.name}Request").newest + 1))

    @property
    def has_transactions(self) -> bool:
        return all(self.offers(api) for api in TRANSACTIONS)

    def write(self, plan: Plan, name: str) -> Written:
        """Creates the topic. RefusedError: the broker does not know its settings. ForbiddenError:
        the client may not create topics. ConformanceError: the broker refuses something else."""
        config = {**KEPT, **plan.config}
        topic = Message(
            name=name,
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=[Message(name=key, value=value) for key, value in config.items()],
        )

        def create() -> tuple[int, bool]:
            response = self._ask(
                self._first, ApiKey.CreateTopics, topics=[topic], timeout_ms=30_000
            )
            error = _only(response.topics, "CreateTopics").error_code
            if error == INVALID_CONFIG:
                refused = plan.config or config
                settings = ", ".join(f"{key}={value}" for key, value in refused.items())
                raise RefusedError(f"the broker refuses {settings}")
            if error in UNAUTHORIZED:
                raise ForbiddenError(
                    f"{self._first.name}: it creates no topics ({named(error)}); the user needs "
                    "rights to topics named conformance-*, and `downconvert serve` needs --writable"
                )
            return error, True

        _patiently(create, f"topic {name}")
        leader, topic_id = self._leader(name)
        connection = self.at(leader)
        producer = self._producer(name) if plan.has_transactions else None
        offsets = []
        for number, batch in enumerate(plan.batches):
            offsets.append(self._produce(connection, name, batch, producer, number))
        return Written(plan, name, topic_id, leader, tuple(offsets), len(plan.batches[0].encoded()))

    def delete(self, names: list[str]) -> None:
        """Deletes topics. ConformanceError: some are still there."""
        response = self._ask(self._first, ApiKey.DeleteTopics, topic_names=names, timeout_ms=30_000)
        gone = (0, UNKNOWN_TOPIC)
        left = [one for one in response.responses if one.error_code not in gone]
        if left:
            raise ConformanceError(
                ", ".join(f"{one.name} ({named(one.error_code)})" for one in left)
            )

    def _ask(self, connection: Connection, api: ApiKey, **fields: object) -> Message:
        offered = self.offers(api)
        if not offered:
            raise ConformanceError(f"{connection.name}: it does not offer {api.name}")
        return connection.ask(api, min(offered[-1], NEWEST[api]), Message(**fields))

    def _leader(self, name: str) -> tuple[tuple[str, int], bytes]:
        def ask() -> tuple[int, tuple[tuple[str, int], bytes] | None]:
            response = self._ask(self._first, ApiKey.Metadata, topics=[Message(name=name)])
            topic = _only(response.topics, "Metadata")
            if topic.error_code or not topic.partitions:
                return topic.error_code or UNKNOWN_TOPIC, None
            partition = _only(topic.partitions, "Metadata")
            if partition.error_code:
                return partition.error_code, None
            leader = partition.leader_id
            for broker in response.brokers:
                if broker.node_id == leader:
                    return 0, ((broker.host, broker.port), topic.topic_id)
            return NO_LEADER, None

        return _patiently(ask, f"the leader of {name}")

    def _producer(self, name: str) -> "_Producer":
        def coordinator() -> tuple[int, tuple[str, int] | None]:
            found = self._ask(self._first, ApiKey.FindCoordinator, key=name, key_type=1)
            return found.error_code, (found.host, found.port)

        address = _patiently(coordinator, "a coordinator of transactions")

        def begin() -> tuple[int, Message | None]:
            response = self._ask(
                self.at(address),
                ApiKey.InitProducerId,
                transactional_id=name,
                transaction_timeout_ms=60_000,
                producer_id=-1,
                producer_epoch=-1,
            )
            return response.error_code, response

        response = _patiently(begin, "a transactional producer")
        return _Producer(name, address, response.producer_id, response.producer_epoch)

    def _produce(
        self,
        connection: Connection,
        name: str,
        batch: Batch,
        producer: "_Producer | None",
        number: int,
    ) -> int:
        """The offset of the batch's first record."""
        transactional = producer if batch.transaction is not None else None
        data = batch.encoded()
        if transactional is not None:
            topics = [Message(name=name, partitions=[0])]
            who = transactional.fields()

            def add() -> tuple[int, bool]:
                fields = {f"v3_and_below_{field}": value for field, value in who.items()}
                answer = self._ask(
                    self.at(transactional.coordinator),
                    ApiKey.AddPartitionsToTxn,
                    v3_and_below_topics=topics,
                    **fields,
                )
                topic = _only(answer.results_by_topic_v3_and_below, "AddPartitionsToTxn")
                one = _only(topic.results_by_partition, "AddPartitionsToTxn")
                return one.partition_error_code, True

            _patiently(add, "a partition in a transaction")
            data = batch.encoded(transactional.id, transactional.epoch, transactional.sequence)
            transactional.sequence += len(batch.records)

        def send() -> tuple[int, int]:
            part = Message(index=0, records=data)
            answer = self._ask(
                connection,
                ApiKey.Produce,
                transactional_id=transactional.name if transactional else None,
                acks=-1,
                timeout_ms=30_000,
                topic_data=[Message(name=name, partition_data=[part])],
            )
            topic = _only(answer.responses, "Produce")
            response = _only(topic.partition_responses, "Produce")
            return response.error_code, response.base_offset

        offset = _patiently(send, f"batch {number} of {name}")
        if transactional is not None:

            def end() -> tuple[int, bool]:
                answer = self._ask(
                    self.at(transactional.coordinator),
                    ApiKey.EndTxn,
                    committed=batch.transaction,
                    **transactional.fields(),
                )
                return answer.error_code, True

            _patiently(end, "the end of a transaction")
        return offset


@dataclass(slots=True)
class _Producer:
    """A transactional producer."""

    name: str
    coordinator: tuple[str, int]
    id: int
    epoch: int
    sequence: int = 0

    def fields(self) -> dict[str, object]:
        return {
            "transactional_id": self.name,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        }


def _patiently(ask: Callable[[], tuple[int, _Response | None]], what: str) -> _Response:
    """Retries until the broker is ready."""
    for _ in _pauses():
        error, response = ask()
        if not error and response is not None:
            return response
        if error not in _LATER:
            break
    raise ConformanceError(f"{what}: {named(error)}")


def _pauses() -> Iterator[None]:
    deadline = time.monotonic() + PATIENCE
    yield
    while time.monotonic() < deadline:
        time.sleep(PAUSE)
        yield


def _only(responses: Sequence[Any] | None, api: str) -> Any:
    """The only element of a response about one topic or partition."""
    if responses is None or len(responses) != 1:
        raise ConformanceError(f"a response to {api} about {len(responses or ())}, asked about one")
    return responses[0]
