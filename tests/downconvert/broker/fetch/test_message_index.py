"""Where messages are, by their offsets."""

import pytest

from downconvert.broker.fetch.message_index import STEP, MessageIndex
from records import MemoryRecords
from tests.downconvert.storage.logs import batch


@pytest.mark.parametrize("count", [0, 1, STEP, STEP + 1, 5 * STEP])
def test_each_message_is_found_by_its_offset_and_by_those_before_it(count: int) -> None:
    offsets = range(10, 10 + 2 * count, 2)  # every other one is not there any more
    data = b"".join(batch(offset, magic=1) for offset in offsets)
    index = MessageIndex(data)
    assert len(index._positions) == -(-count // STEP)  # so that a search reads few of them
    positions = [header.position for header in MemoryRecords(data).batches()] + [len(data)]
    for number in range(count):
        assert index.find(offsets[number]) == (positions[number], number)
        assert index.find(offsets[number] + 1) == (positions[number + 1], number + 1)
    assert index.find(0) == (0, 0)
    assert index.find(1000) == (len(data), count)
