"""A search for a timestamp sends few requests to a store: the numbers of docs/spark-stores.md."""

from collections import Counter
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import pytest

from tests.downconvert.spark.reading import splits
from tests.downconvert.storage.logs import batch, indexed_segment
from tests.object_store import ObjectStore

SEGMENTS: Final = 4
SIZE: Final = 20  # offsets of a segment
END: Final = 10 * SEGMENTS * SIZE  # as a timestamp
# The segment with the record takes two indexes, the headers that confirm them, and a block with the
# record. Each segment before it takes the indexes, and headers at its end.
OF_FOUND: Final = 7
OF_EARLIER: Final = 5


@pytest.mark.others
@pytest.mark.parametrize("size", [10, 8000])
def test_requests_grow_with_the_segments_before_the_record(
    store: tuple[ObjectStore, Path], size: int
) -> None:
    """A log of up to 64 KiB is read by one request, and a longer one by way of its index."""
    running, bucket = store
    folder = Path(mkdtemp(prefix=f"records-{size}-", dir=bucket))
    for base in range(0, SEGMENTS * SIZE, SIZE):
        ats = range(base, base + SIZE, 2)
        batches = (batch(at, at + 1, size=size, leader_epoch=0) for at in ats)
        indexed_segment(folder / "a-0", base, *batches, interval=4096)

    def asked(**options: Any) -> Counter[str]:
        """How many objects were read of each segment, by the beginning of its name."""
        before = len(running.requests())
        assert splits(f"s3://bucket/{folder.name}", **options)
        made = running.requests()[before:]
        assert Counter(kind for kind, _ in made)["ListObjectsV2"] == 1
        assert {kind for kind, _ in made} <= {"ListObjectsV2", "GetObject"}
        return Counter(Path(name).name[:20] for kind, name in made if kind == "GetObject")

    assert asked() == {}
    first, *_, last = [f"{base:020d}" for base in range(0, SEGMENTS * SIZE, SIZE)]
    for option in ("startingTimestamp", "endingTimestamp"):
        found = asked(**{option: 55})
        assert set(found) == {first}
        assert found[first] <= OF_FOUND
        found = asked(**{option: END - 50})
        assert found.pop(last) <= OF_FOUND
        assert len(found) == SEGMENTS - 1
        assert max(found.values()) <= OF_EARLIER
    both = asked(startingTimestamp=55, endingTimestamp=END - 50)
    assert both.pop(first) <= OF_FOUND + OF_EARLIER
    assert both.pop(last) <= OF_FOUND
    assert max(both.values()) <= OF_EARLIER
