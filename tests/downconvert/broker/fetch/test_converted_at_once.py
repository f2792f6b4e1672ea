"""A small range that is not compressed is converted at once, and is what it is otherwise."""

from io import BytesIO
from pathlib import Path
from random import Random

import pytest

from downconvert import ConversionPolicy
from downconvert.broker.fetch.contribution import ReadLimits
from downconvert.broker.fetch.conversion_cache import ConversionCache
from records import (
    Codec,
)
from records.budget import MemoryBudget
from records.files.sends import Send
from tests.downconvert.broker.fetching import (
    broker_of,
)
from tests.downconvert.storage.logs import batch

from .reading import converted, markers, of


@pytest.mark.parametrize("seed", range(6))
def test_a_conversion_at_once_equals_a_conversion_while_sending(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    batches: list[bytes] = []
    end = 0
    while end < 400:
        offsets = [end + n for n in range(random.choice((1, 2, 20)))]
        codec = random.choice((Codec.NONE, Codec.NONE, Codec.LZ4))
        if random.random() < 0.2:
            batches.append(markers(1, end))
            end += 1
        else:
            batches.append(batch(*offsets, codec=codec))
            end = offsets[-1] + random.choice((1, 1, 5))  # what was between them was compacted
    budget = MemoryBudget(1 << 20)
    cache, at_once = ConversionCache(budget), 0
    with broker_of(tmp_path, {"events": {0: batches}}) as broker:
        partition = of(broker)
        end = partition.end_offset
        for _ in range(150):
            offset, max_bytes = random.randrange(end), random.choice((150, 400, 1000, 3000))
            limits = ReadLimits(max_bytes, first=True, is_hard=random.random() < 0.5)
            if partition.read(offset, max_bytes, end).size < max_bytes:
                continue  # at the end of a log what is converted is shared
            lazily = converted(partition, offset, end, limits, ConversionPolicy())
            found = converted(partition, offset, end, limits, ConversionPolicy(), cache)
            parts = getattr(found.records, "parts", [found.records])
            at_once += any(not getattr(part, "converts", True) for part in parts)
            both = [bytes_of(one.records) for one in (lazily, found)]
            assert both[0] == both[1], f"from {offset}, {limits}, seed {seed}"
            assert lazily[1:3] == found[1:3]
    assert at_once > 5
    del found
    assert budget.held == 0


def bytes_of(records: Send | bytes) -> bytes:
    """The sent bytes."""
    if isinstance(records, bytes):
        return records
    channel = BytesIO()
    while not records.completed:
        records.write_to(channel)
    return channel.getvalue()
