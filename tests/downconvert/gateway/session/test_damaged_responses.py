"""A damaged response of the cluster is let go as soon as the client has its own.

Nothing refers to itself: a client that fetches a damaged batch ten times a second would otherwise
fill the memory, or the disk, until Python looks for cycles."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from downconvert import ConversionPolicy
from downconvert.gateway.session import fetching, recoding, spool
from downconvert.gateway.session.fetching import WITH_NAMES
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import Message
from downconvert.serving.buffered_send import MemoryBudget
from records import Codec, CorruptRecordsError
from records.formats import MAGIC_AT
from tests.downconvert.broker.asking import CORRELATION_ID
from tests.downconvert.gateway.talk import fetch_body
from tests.downconvert.storage.logs import batch

from .test_responses import drive, fetch_response, part

SERVED = range(4, 18)
BODY_AT = 80  # within the records of a batch
SIZE_AT = 10
BUDGET = 1 << 22


@pytest.fixture(autouse=True)
def no_collection(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(spool, "MEMORY_MAX", 0)  # small responses count, too
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def whole(data: bytes) -> bytes:
    return data


def damaged(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def fetched(version: int) -> Any:
    body = fetch_body(0)
    if version < 4:
        return fetching.fetch(body, version, SERVED, lambda _: ConversionPolicy())
    body.isolation_level, body.session_id, body.session_epoch = 0, 0, -1
    return recoding.fetch(body, version, SERVED, lambda _: ConversionPolicy())


def received(response: Message, budget: MemoryBudget) -> Message:
    """The cluster's response, in memory of the budget."""
    for one in response.responses[0].partitions:
        one.records = one.records.view
    head = CORRELATION_ID.to_bytes(4) + bytes(1)  # no tags
    data = head + encode("FetchResponse", WITH_NAMES, response)
    made = spool.Spool(len(data), budget=budget)
    made.write(memoryview(data))
    return made.read("FetchResponse", WITH_NAMES, 1, CORRELATION_ID)


def send_all(response: Message) -> None:
    """Sends what the client gets, or as much of it as there is."""
    data = response.responses[0].partitions[0].records
    if isinstance(data, bytes | memoryview):
        return
    try:
        while not data.completed:
            data.write_to(Sink())
    except CorruptRecordsError:
        data.close()


class Sink:
    def send(self, data: memoryview) -> int:
        return len(data)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
@pytest.mark.parametrize("version", [0, 2, 3, 9])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(
    "damage",
    [whole, damaged(MAGIC_AT), damaged(SIZE_AT), damaged(BODY_AT)],
    ids=["whole", "magic", "size", "body"],
)
def test_nothing_is_left_of_a_damaged_response(
    damage: Callable[[bytes], bytes], number: int, version: int, codec: Codec
) -> None:
    batches = [bytes(batch(*range(at, at + 3), size=300, codec=codec)) for at in (0, 3)]
    batches[number] = damage(batches[number])
    budget = MemoryBudget(BUDGET)
    first = received(fetch_response(part(0, b"".join(batches), 6)), budget)
    assert budget.held
    response, _ = drive(fetched(version), first, *[fetch_response(part(0, b"", 6))] * 2)
    del first
    send_all(response)
    del response
    assert not budget.held
