"""The small requests to servers: one frame each, sent repeatedly.

A frame may differ from server to server: a heartbeat names the member that the server knows.

Not here: the client (small_client.py), the servers (small_servers.py)."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Final

from bench.measuring.segments import Shape, batches, plain
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, build
from records.formats import V2
from records.units import KiB, MiB

from .draining import Wire, fetch, request

# A topic for each codec, with batches of about 16 KiB on disk.
FETCHED: Final = (
    Shape("none", Codec.NONE, MiB, plain(100)),
    Shape("lz4", Codec.LZ4, MiB, plain(100), batch_size=26_000),
)
WRITTEN: Final = "written"  # the topic of writing requests and of Metadata
GROUP: Final = "small"
FETCH_SIZE: Final = 16 * KiB  # the bytes that a fetch requests; the first batch is always complete
BATCH: Final = 8  # the fetched one: neither the first nor the last
OLD, NEW = 2, 11  # versions of Fetch: with v1 messages, and with the batches on disk
PASSED: Final = 12  # a version that every broker takes, so that proxies pass it through
SESSION_SECONDS: Final = 1_500  # a member's session timeout: longer than any run


class Need(Enum):
    """A server needs this to answer a request without an error."""

    RECORDS = "the records, in a log that it may only read"
    WRITABLE = "a log of its own"
    CLUSTER = "a cluster behind it, to which it passes the request"


Frame = Callable[[Wire], bytes]  # makes a request's frame, with its length, for one server


@dataclass(frozen=True, slots=True)
class Kind:
    """A request, and the servers that get it."""

    name: str
    frame: Frame
    needs: Need = Need.RECORDS


def fetching(version: int, shape: Shape, needs: Need = Need.RECORDS) -> Kind:
    """A fetch from the beginning of one batch."""
    found = batches(shape, shape.size)
    offset = next(islice(found, BATCH, None))[0].offset
    frame = fetch(version, shape.name, offset, FETCH_SIZE)
    return Kind(f"Fetch v{version} {shape.name}", lambda _: frame, needs)


def always(
    name: str, api: ApiKey, version: int, body: Message, needs: Need = Need.WRITABLE
) -> Kind:
    frame = request(api, version, body)
    return Kind(name, lambda _: frame, needs)


def _heartbeat(wire: Wire) -> bytes:
    """A heartbeat of the only member of a group. The member has joined."""
    subscription = (
        b"\0\0" + (1).to_bytes(4) + len(WRITTEN).to_bytes(2) + WRITTEN.encode() + b"\0" * 4
    )
    joined = wire.ask(
        ApiKey.JoinGroup,
        0,
        Message(
            group_id=f"{GROUP}-heartbeat",
            session_timeout_ms=SESSION_SECONDS * 1_000,
            member_id="",
            protocol_type="consumer",
            protocols=[Message(name="range", metadata=subscription)],
        ),
    )
    member = {
        "group_id": f"{GROUP}-heartbeat",
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
    }
    assignment = Message(member_id=joined.member_id, assignment=b"\0\0" + b"\0" * 8)
    wire.ask(ApiKey.SyncGroup, 0, Message(**member, assignments=[assignment]))
    return request(ApiKey.Heartbeat, 0, Message(**member))


def _commit() -> Message:
    partition = Message(partition_index=0, committed_offset=5, committed_metadata="")
    return Message(
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time_ms=-1,
        topics=[Message(name=WRITTEN, partitions=[partition])],
    )


def _produce() -> Message:
    record = next(batches(FETCHED[0], MiB))[0]
    partition = Message(index=0, records=build([record], magic=V2))
    topics = [Message(name=WRITTEN, partition_data=[partition])]
    return Message(transactional_id=None, acks=1, timeout_ms=30_000, topic_data=topics)


KINDS: Final = (
    *(fetching(version, shape) for version in (NEW, OLD) for shape in FETCHED),
    *(fetching(PASSED, shape, Need.CLUSTER) for shape in FETCHED),
    always("ApiVersions", ApiKey.ApiVersions, 0, Message(), Need.RECORDS),
    always(
        "Metadata",
        ApiKey.Metadata,
        5,
        Message(topics=[Message(name=WRITTEN)], allow_auto_topic_creation=False),
    ),
    Kind("Heartbeat", _heartbeat, Need.WRITABLE),
    always("OffsetCommit", ApiKey.OffsetCommit, 2, _commit()),
    always("Produce", ApiKey.Produce, 3, _produce()),
)
