"""Mutants of what clients send and of what a cluster answers, each of a seed and a number alone.

A mutant may be answered, passed on, or end its connection. Anything else is a defect: an exception
of another kind, or a request that is neither.

Not here: how many are tried (test_hostile.py; by the million, bench/fuzz_gateway.py)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Final

from downconvert.access.rights import Access
from downconvert.broker import Broker, BrokerConfig
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.session.exchanges import Ask, Response
from downconvert.gateway.topology import Address
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir, TopicPartition
from records import Codec, RecordsError
from tests.damage import mutated
from tests.downconvert.broker.asking import frame
from tests.downconvert.storage.logs import batch

from .cluster import Through, modern
from .talk import fetch_body, message_set, produce_body

LENGTH_SIZE: Final = 4
OPEN: Final = GatewayConfig(bootstrap=(Address("cluster.test", 9092),))
LISTED: Final = replace(OPEN, access=Access(topics=("t", "u*"), groups=("g",)))
TOPIC_IDS: Final = [Message(name=None, topic_id=bytes([n]) * 16) for n in range(2)]
REQUESTS: Final = (
    frame(ApiKey.ApiVersions, 0, Message()),
    frame(ApiKey.ApiVersions, 3, Message(client_software_name="a", client_software_version="1")),
    frame(ApiKey.Metadata, 0, Message(topics=[])),
    frame(ApiKey.Metadata, 12, Message(topics=[Message(name="t")])),
    *(frame(ApiKey.Fetch, version, fetch_body(0, 0)) for version in range(4)),
    *(frame(ApiKey.Fetch, version, fetch_body(0, 0)) for version in (4, 7, 9, 12)),
    *(
        frame(ApiKey.Produce, version, produce_body(message_set(magic, b"a", b"b", codec=codec)))
        for version, magic in ((0, 0), (1, 0), (2, 1), (9, 2))
        for codec in (Codec.NONE, Codec.GZIP)
    ),
    frame(
        ApiKey.ListOffsets,
        0,
        Message(
            replica_id=-1,
            topics=[
                Message(
                    name="t",
                    partitions=[Message(partition_index=0, timestamp=-1, max_num_offsets=2)],
                )
            ],
        ),
    ),
    frame(
        ApiKey.OffsetFetch,
        0,
        Message(group_id="g", topics=[Message(name="t", partition_indexes=[0])]),
    ),
    frame(ApiKey.FindCoordinator, 0, Message(key="g")),
    frame(ApiKey.CreateTopics, 0, Message(topics=[], timeout_ms=1)),
    frame(ApiKey.SaslHandshake, 0, Message(mechanism="PLAIN")),
    frame(ApiKey.DeleteTopics, 4, Message(topic_names=["u", "v"], timeout_ms=1)),
    frame(ApiKey.DeleteTopics, 6, Message(topics=TOPIC_IDS, timeout_ms=1)),
    frame(ApiKey.DescribeGroups, 5, Message(groups=["g", "h"])),
    frame(ApiKey.FindCoordinator, 4, Message(key_type=0, coordinator_keys=["g", "h"])),
    frame(
        ApiKey.OffsetFetch,
        8,
        Message(groups=[Message(group_id=name, topics=None) for name in ("g", "h")]),
    ),
)


@contextmanager
def cluster(directory: Path) -> Iterator[Broker]:
    """Two partitions with records of every codec. It takes nothing in: mutants would fill it."""
    with LogDir.open(directory, writable=True) as log_dir:
        for partition in range(2):
            writer = log_dir.logs.create(TopicPartition("t", partition)).writer
            for number, codec in enumerate(Codec):
                writer.append(batch(2 * number, 2 * number + 1, codec=codec))
        yield modern(Broker(log_dir, BrokerConfig()))


def attempt(broker: Broker, seed: int, number: int) -> str:
    """Tries one mutant; what became of it. Raises what no mutant may."""
    random = Random(f"{seed}/{number}")
    request = random.choice(REQUESTS)
    spoils_responses = random.random() < 0.5

    def tamper(_ask: Ask, response: bytes) -> bytes:
        if not spoils_responses or random.random() < 0.3:
            return response
        return bytes(LENGTH_SIZE) + mutated(response[LENGTH_SIZE:], random)

    through = Through(broker, random.choice((OPEN, LISTED)), tamper=tamper)
    try:
        reply = through.reply(request if spoils_responses else mutated(request, random))
        if isinstance(reply, Response):
            channel = BytesIO()
            while not reply.send.completed:
                reply.send.write_to(channel)
            through.session.sent(reply.send)
            size = int.from_bytes(channel.getvalue()[:LENGTH_SIZE])
            assert size == len(channel.getvalue()) - LENGTH_SIZE
    except (BadRequestError, RecordsError) as error:
        return type(error).__name__
    return type(reply).__name__
