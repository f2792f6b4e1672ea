"""Where messages are, by their offsets."""

from typing import Any

import pytest

from downconvert.broker.fetch import message_index
from downconvert.broker.fetch.message_index import STEP, MessageIndex
from records import MemoryRecords
from records.formats import PREFIX
from tests.downconvert.storage.logs import batch


@pytest.mark.parametrize("count", [0, 1, STEP, STEP + 1, 5 * STEP])
def test_each_message_is_found_by_its_offset_and_by_those_before_it(count: int) -> None:
    offsets = range(10, 10 + 2 * count, 2)  # every other one is not there any more
    data = b"".join(batch(offset, magic=1) for offset in offsets)
    index = MessageIndex(data)
    positions = [header.position for header in MemoryRecords(data).batches()] + [len(data)]
    for number in range(count):
        assert index.find(offsets[number]) == (positions[number], number)
        assert index.find(offsets[number] + 1) == (positions[number + 1], number + 1)
    assert index.find(0) == (0, 0)
    assert index.find(1000) == (len(data), count)


class Counted:
    """Counts the messages that are read."""

    size = PREFIX.size

    def __init__(self) -> None:
        self.read = 0

    def unpack_from(self, data: bytes, at: int) -> tuple[Any, ...]:
        self.read += 1
        return PREFIX.unpack_from(data, at)


def test_a_search_reads_few_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 20 * STEP
    index = MessageIndex(b"".join(batch(offset, magic=1) for offset in range(count)))
    for offset in range(count + 1):
        counted = Counted()
        monkeypatch.setattr(message_index, "PREFIX", counted)
        assert index.find(offset)[1] == offset
        assert counted.read <= STEP + 1
