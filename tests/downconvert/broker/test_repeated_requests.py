"""A repeated request is answered as a new one, whatever has changed since it was sent before.

A connection sends the same bytes again and again. In between, a topic, its log, its leader, its
settings or the client's rights change. Each response is compared with that to a connection that is
new, and whose client id the broker has never seen: nothing is known about its request.

Not here: which requests are remembered (protocol/test_known_requests.py), threads (network)."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker, Client
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import Log
from records import Codec, ControlRecordType
from tests.downconvert.storage.logs import batch

from .asking import ask, frame, sent
from .writable import writable_broker

TOPIC: Final = "events"
GROUP: Final = "group"
STEPS: Final = 50
ACCESS: Final = (
    None,
    Access(),
    Access(topics=("other",)),
    Access(topics=("eve*",), groups=("other",)),
    Access(is_read_only=True),
)

Requests = dict[tuple[ApiKey, int, int], Message]  # by API, version and a number


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, TOPIC, group_initial_rebalance_delay_ms=0) as made:
        yield made


def requests(broker: Broker) -> Requests:
    """Requests as clients repeat them. Their topic has the id that it has now."""
    topic_id, member = broker.topics[TOPIC].id, _member(broker)
    made: Requests = {}
    for version in (0, 2, 3, 4, 9, 11, 12, 13, 17):
        for number, offset in enumerate((0, 3, 7)):
            one = Message(partition=0, fetch_offset=offset, partition_max_bytes=700)
            topics = [Message(topic=TOPIC, topic_id=topic_id, partitions=[one])]
            body = Message(max_bytes=2**20, isolation_level=number % 2, topics=topics)
            body.__dict__.update(session_id=0, session_epoch=-1, replica_id=-1)
            made[ApiKey.Fetch, version, number] = body
    for version, number, time in ((1, 0, -1), (1, 1, -2), (2, 0, -1), (5, 0, 4), (7, 0, -3)):
        at = [Message(partition_index=0, timestamp=time)]
        listed = Message(replica_id=-1, isolation_level=1, topics=[Message(name=TOPIC)])
        listed.topics[0].partitions = at
        made[ApiKey.ListOffsets, version, number] = listed
    for version in (1, 5, 12):
        named = [Message(name=TOPIC, topic_id=bytes(16))]
        made[ApiKey.Metadata, version, 0] = Message(topics=named, allow_auto_topic_creation=False)
    made[ApiKey.Heartbeat, 0, 0] = member
    fetched = Message(name=TOPIC, partition_indexes=[0])
    made[ApiKey.OffsetFetch, 1, 0] = Message(group_id=GROUP, topics=[fetched])
    made[ApiKey.FindCoordinator, 0, 0] = Message(key=GROUP)
    made[ApiKey.ApiVersions, 0, 0] = Message()
    return made


def _member(broker: Broker) -> Message:
    body = Message(group_id=GROUP, session_timeout_ms=10_000, protocol_type="consumer")
    body.__dict__.update(member_id="", protocols=[Message(name="range", metadata=b"")])
    joined = ask(broker, ApiKey.JoinGroup, 0, body)
    named = {"generation_id": joined.generation_id, "member_id": joined.member_id}
    return Message(group_id=GROUP, **named)


class Changing:
    """A broker, and the changes that its requests must notice at once."""

    def __init__(self, broker: Broker, random: Random) -> None:
        self.broker = broker
        self.now = 0.0
        self.access: Access | None = None
        self._random = random
        self.changes: tuple[Callable[[], object], ...] = (
            self._append,
            self._append,
            self._append,
            self._append_in_transaction,
            self._end_transaction,
            self._truncate,
            self._delete_records,
            self._create_again,
            self._set_leader,
            self._set_epoch,
            self._set_high_watermark,
            self._set_conversion,
            self._commit,
            self._set_rights,
            self._wait,
        )

    def change(self) -> str:
        """Makes one change, and returns its name."""
        change = self._random.choice(self.changes)
        change()
        return change.__name__

    @property
    def _log(self) -> Log:
        return self.broker.topics[TOPIC].partitions[0].log

    def _append(self, **fields: int | bool) -> None:
        end = self._log.end_offset
        codec = self._random.choice((Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD))
        self._log.writer.append(batch(end, end + 1, codec=codec, **fields))

    def _append_in_transaction(self) -> None:
        self._append(producer_id=5, producer_epoch=0, transactional=True)

    def _end_transaction(self) -> None:
        kind = self._random.choice((ControlRecordType.COMMIT, ControlRecordType.ABORT))
        partition = self.broker.topics[TOPIC].partitions[0]
        if partition.leader == partition.node_id:
            partition.append_marker(kind, (5, 0), 0, 0.0, 0)

    def _truncate(self) -> None:
        start, end = self._log.start_offset, self._log.end_offset
        self._log.writer.truncate_to(self._random.randint(start, end))

    def _delete_records(self) -> None:
        start, end = self._log.start_offset, self._log.end_offset
        self._log.writer.delete_records(min(start + 1, end))

    def _create_again(self) -> None:
        body = Message(topic_names=[TOPIC], timeout_ms=1)
        ask(self.broker, ApiKey.DeleteTopics, 1, body, now=self.now)
        topic = Message(name=TOPIC, num_partitions=1, replication_factor=1)
        topic.__dict__.update(assignments=[], configs=[])
        ask(self.broker, ApiKey.CreateTopics, 2, Message(topics=[topic], timeout_ms=1))

    def _set_leader(self) -> None:
        partition = self.broker.topics[TOPIC].partitions[0]
        partition.leader = self._random.choice((partition.node_id, partition.node_id, 9, None))

    def _set_epoch(self) -> None:
        self.broker.topics[TOPIC].partitions[0].leader_epoch += 1

    def _set_high_watermark(self) -> None:
        committed = self._random.choice((None, None, 1, 4))
        self.broker.topics[TOPIC].partitions[0].committed_end = committed

    def _set_conversion(self) -> None:
        value = self._random.choice(("true", "false"))
        config = Message(name="message.downconversion.enable", config_operation=0, value=value)
        resource = Message(resource_type=2, resource_name=TOPIC, configs=[config])
        ask(self.broker, ApiKey.IncrementalAlterConfigs, 0, Message(resources=[resource]))

    def _commit(self) -> None:
        partition = Message(partition_index=0, committed_offset=self._random.randint(0, 9))
        topics = [Message(name=TOPIC, partitions=[partition])]
        ask(self.broker, ApiKey.OffsetCommit, 2, Message(group_id="other", topics=topics))

    def _set_rights(self) -> None:
        """As a login does on an open connection."""
        self.access = self._random.choice(ACCESS)

    def _wait(self) -> None:
        """A member's session may end."""
        self.now += self._random.choice((0.001, 1.0, 11.0))
        self.broker.tick(self.now)


def answered(changing: Changing, client: Client, data: bytes) -> bytes | str:
    """The bytes of a response, or the reason for none."""
    broker, client.access = changing.broker, changing.access
    try:
        exchange = broker.handle(client, memoryview(bytearray(data)), changing.now)
    except BadRequestError as error:
        return str(error)
    while not exchange.is_done:
        broker.tick(changing.now)
    try:
        return exchange.why if exchange.send is None else sent(exchange)
    finally:
        broker.finished(exchange, changing.now)


@pytest.mark.parametrize("seed", range(6))
def test_a_repeated_request_is_answered_as_a_new_one(broker: Broker, seed: int) -> None:
    random, numbers = Random(seed), count(2)
    changing, asked = Changing(broker, random), requests(broker)
    old, history = Client(1, "127.0.0.1"), list[str]()
    different: set[bytes | str] = set()
    for _ in range(STEPS):
        for (api, version, number), body in asked.items():
            new = Client(next(numbers), "127.0.0.1")
            unknown = frame(api, version, body, f"{new.id}")
            expected = answered(changing, new, unknown)
            again = answered(changing, old, frame(api, version, body))
            assert again == expected, (api.name, version, number, history)
            different.add(again)
        history.append(changing.change())
    assert len(different) > len(asked), "changes are seen"
