"""Clients above their rates: does each version learn how long to wait, and does the server make it
wait?

Both servers have the same rates: Kafka as quotas of client ids, `serve` as those of its rule. Each
client is another, and sends one request, and then one that costs nothing. How long it has to wait
may differ: Kafka averages over a window, and `serve` counts what is left.

    for difference in differing(addresses, seed=1, count=100): print(difference)"""

import select
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from downconvert.access.rights import Access
from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from records import Record, TimestampType, build
from tests.downconvert.broker.asking import frame, parsed
from tests.downconvert.broker.guarding import guard_of
from tests.downconvert.broker.talking import API_VERSIONS, Talk
from tests.downconvert.storage.logs import UNSYNCED
from tests.kafka_server import running

from .identities import KAFKA, SIDES
from .servers import PATIENCE, PROPERTIES, Address

RATE: Final = 1000.0  # bytes a second
# Bytes of a message: far below, and far above, what the rate allows in ten seconds.
SMALL, LARGE = 100, 30_000
MUTED: Final = 0.4  # seconds without a response
TOPICS: Final = {"small": SMALL, "large": LARGE}
WRITTEN: Final = "written"  # the topic of produces; the others stay as they are
# Versions. Kafka cuts an earlier Fetch off where its window ends, and later ones need topics' ids.
PRODUCE, FETCH = range(12), range(3, 13)
THROTTLE_SINCE: Final = 1  # in both
ALTER_CLIENT_QUOTAS: Final = 49
CREATE: Final = Message(
    topics=[
        Message(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in (*TOPICS, WRITTEN)
    ],
    timeout_ms=10_000,
    validate_only=False,
)


@contextmanager
def with_rates() -> Iterator[tuple[Address, Address]]:
    """Both servers, with a topic whose records are above the rate, and one that is below."""
    config = BrokerConfig(is_writable=True, offsets_topic_num_partitions=1)
    with (
        TemporaryDirectory(prefix="differences-") as directory,
        running(properties=PROPERTIES) as kafka,
        LogDir.open(Path(directory), writable=True, files=UNSYNCED) as log_dir,
        Server(broker := Broker(log_dir, config)) as server,
    ):
        addresses = ("127.0.0.1", kafka.ports[0]), server.address
        for address in addresses:
            with Talk(address, seconds=PATIENCE) as talk:
                _prepare(talk)
        with Talk(addresses[KAFKA], seconds=PATIENCE) as talk:
            for name in ("producer_byte_rate", "consumer_byte_rate"):
                talk.send_frame(_quota(name))
                talk.receive()
        broker.guard = guard_of(None, Access(producer_byte_rate=RATE, consumer_byte_rate=RATE))
        yield addresses


def _prepare(talk: Talk) -> None:
    """Creates the topics. Each gets a batch; Kafka leads them a moment after they are there."""
    talk.ask(ApiKey.CreateTopics, 4, CREATE)
    until = time.monotonic() + PATIENCE
    for name, size in (TOPICS | {WRITTEN: SMALL}).items():
        while True:
            response = talk.ask(ApiKey.Produce, 3, _produce(3, name, size, acks=1))
            (part,) = response.responses[0].partition_responses
            if not part.error_code:
                break
            assert time.monotonic() < until, part
            time.sleep(MUTED / 10)


def _quota(name: str) -> bytes:
    """AlterClientQuotas 0, which this project does not have: a rate for each client id."""
    header = struct.pack(">hhih", ALTER_CLIENT_QUOTAS, 0, 1, -1)
    entity = struct.pack(">ii", 1, 1) + _text("client-id") + struct.pack(">h", -1)
    return header + entity + struct.pack(">i", 1) + _text(name) + struct.pack(">d??", RATE, 0, 0)


def _text(said: str) -> bytes:
    return struct.pack(">h", len(said)) + said.encode()


def _produce(version: int, topic: str, size: int, acks: int) -> Message:
    magic = min(max(version - 1, 0), 2)
    now = int(time.time() * 1000)
    kind = (-1, TimestampType.NONE) if not magic else (now, TimestampType.CREATE)
    records = build([Record(0, *kind, b"k", b"v" * size)], magic=magic)
    data = [Message(name=topic, partition_data=[Message(index=0, records=records)])]
    return Message(transactional_id=None, acks=acks, timeout_ms=10_000, topic_data=data)


def _fetch(topic: str) -> Message:
    part = Message(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=0,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=2 * LARGE,
    )
    return Message(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=2 * LARGE,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[Message(topic=topic, partitions=[part])],
        forgotten_topics_data=[],
        rack_id="",
    )


def differing(addresses: tuple[Address, Address], seed: int, count: int) -> Iterator[str]:
    """What differs, in words."""
    random = Random(seed)
    for number in range(count):
        topic = random.choice(sorted(TOPICS))
        if random.random() < 0.6:
            api, version, acks = (
                ApiKey.Produce,
                random.choice(PRODUCE),
                random.choice((1, 1, 0, -1)),
            )
            body = _produce(version, WRITTEN, TOPICS[topic], acks)
        else:
            api, version, acks = ApiKey.Fetch, random.choice(FETCH), 1
            body = _fetch(topic)
        found = [_seen(addresses[side], side, number, api, version, body, acks) for side in SIDES]
        if found[0] != found[1]:
            yield f"{number}: {api.name} {version}, {topic}, acks {acks}: {found}"


def _seen(
    address: Address, side: int, number: int, api: ApiKey, version: int, body: Message, acks: int
) -> dict[str, bool]:
    """Whether the response has a time, and whether the next one has to wait. Clients differ by
    their ids, and by their addresses."""
    source = "" if side == KAFKA else f"127.1.{number // 250}.{number % 250 + 1}"
    with Talk(address, source=source, seconds=PATIENCE) as talk:
        talk.send_frame(frame(api, version, body, f"client-{number}"))
        has_time = False
        if acks:
            response = parsed(api, version, talk.receive())
            has_time = version >= THROTTLE_SINCE and response.throttle_time_ms > 0
        talk.send(*API_VERSIONS)
        is_muted = not select.select([talk.socket], [], [], MUTED)[0]
        return {"has a throttle time": has_time, "is muted": is_muted}
