import os
from pathlib import Path

import pytest

from downconvert.gateway.session.spool import MEMORY_MAX, Spool
from downconvert.protocol.encoder import encode
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import Message
from records import FileRecords, MemoryRecords
from records.budget import MemoryBudget


def response(records: bytes, version: int = 12) -> bytes:
    partition = Message(partition_index=3, high_watermark=9, records=records)
    body = Message(responses=[Message(topic="t", partitions=[partition])])
    flexible = version >= 12
    head = encode("ResponseHeader", int(flexible), Message(correlation_id=5))
    return head + encode("FetchResponse", version, body)


def spooled(data: bytes, piece: int = 1000) -> Spool:
    spool = Spool(len(data))
    for start in range(0, len(data), piece):
        spool.write(memoryview(data)[start : start + piece])
    return spool


@pytest.mark.parametrize("size", [0, 1, 1000, MEMORY_MAX, 10 * MEMORY_MAX])
@pytest.mark.parametrize(("version", "header"), [(4, 0), (12, 1)])
def test_records_are_found_where_they_were_written(size: int, version: int, header: int) -> None:
    records = os.urandom(size)
    message = spooled(response(records, version)).read("FetchResponse", version, header, 5)
    (topic,) = message.responses
    (partition,) = topic.partitions
    found = partition.records
    target = bytearray(found.size)
    assert found.read_into(memoryview(target), 0) == size
    assert (bytes(target), partition.partition_index, topic.topic) == (records, 3, "t")


def test_small_is_kept_in_memory_and_large_in_a_file_without_a_name(tmp_path: Path) -> None:
    small = spooled(response(b"x")).read("FetchResponse", 12, 1, 5)
    assert isinstance(small.responses[0].partitions[0].records, MemoryRecords)
    data = response(bytes(MEMORY_MAX))
    spool = Spool(len(data), str(tmp_path))
    spool.write(memoryview(data))
    large = spool.read("FetchResponse", 12, 1, 5)
    assert isinstance(large.responses[0].partitions[0].records, FileRecords)
    assert list(tmp_path.iterdir()) == []


def test_large_responses_are_in_memory_while_the_budget_lasts(tmp_path: Path) -> None:
    data = response(bytes(MEMORY_MAX))
    budget = MemoryBudget(len(data) + 100)
    kinds = []
    held = []
    for _ in range(2):
        spool = Spool(len(data), str(tmp_path), budget)
        spool.write(memoryview(data))
        held.append(spool.read("FetchResponse", 12, 1, 5))
        kinds.append(type(held[-1].responses[0].partitions[0].records))
        del spool
    assert kinds == [MemoryRecords, FileRecords]
    assert budget.left == 100
    records = held[0].responses[0].partitions[0].records.view  # what a send refers to
    held.clear()
    assert budget.left == 100
    del records
    assert budget.left == len(data) + 100


def test_the_response_to_another_request_is_an_error() -> None:
    with pytest.raises(BadRequestError, match="request 5"):
        spooled(response(b"")).read("FetchResponse", 12, 1, 6)


@pytest.mark.parametrize("size", [0, 10 * MEMORY_MAX])
def test_half_a_response_and_one_with_more_bytes_are_errors(size: int) -> None:
    whole = response(bytes(size))
    for data in (whole[:-1], whole + b"\0", whole[: len(whole) // 2]):
        with pytest.raises(BadRequestError):
            spooled(data, 1 << 20).read("FetchResponse", 12, 1, 5)


@pytest.mark.parametrize("size", [100, MEMORY_MAX, MEMORY_MAX + 1])
def test_bytes_after_a_response_are_not_taken_with_its_last_ones(tmp_path: Path, size: int) -> None:
    """It belongs to the next one. The buffer is larger than the bytes that are left."""
    data, buffer = os.urandom(size + 50), memoryview(bytearray(40_000))
    spool, taken = Spool(size, str(tmp_path)), 0

    def read(target: memoryview) -> int:
        nonlocal taken
        piece = data[taken : taken + min(len(target), 30_000)]
        target[: len(piece)] = piece
        taken += len(piece)
        return len(piece)

    while not spool.is_whole:
        assert spool.receive(read, buffer)
    assert (taken, spool.received) == (size, size)
