"""What a search for a timestamp asks of a store. docs/spark.md has these numbers."""

from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.downconvert.spark.reading import splits
from tests.downconvert.storage.logs import batch, indexed_segment
from tests.object_store import ObjectStore

SEGMENTS: Final = 4
SIZE: Final = 20  # offsets of a segment
END: Final = 10 * SEGMENTS * SIZE  # as a timestamp
# For each segment before the record that is found: all of it and its two indexes are copied, and
# the indexes are compared with headers.
OF_ONE: Final = 9
OF_BOTH: Final = 10  # for two timestamps
COPIED: Final = 3  # for each segment after it


@pytest.mark.others
@pytest.mark.parametrize("size", [10, 8000])
def test_requests_grow_with_the_segments_before_the_record(
    store: tuple[ObjectStore, Path], size: int
) -> None:
    """A log of up to 64 KiB is read by one request, and a longer one by way of its index."""
    running, bucket = store
    folder = bucket / f"records-{size}"
    folder.mkdir()
    for base in range(0, SEGMENTS * SIZE, SIZE):
        ats = range(base, base + SIZE, 2)
        batches = (batch(at, at + 1, size=size, leader_epoch=0) for at in ats)
        indexed_segment(folder / "a-0", base, *batches, interval=4096)

    def asked(**options: Any) -> Counter[str]:
        before = len(running.requests())
        assert splits(f"s3://bucket/{folder.name}", **options)
        return Counter(kind for kind, _ in running.requests()[before:])

    listed = {"ListObjectsV2": 1}
    assert asked() == listed
    early, late = 55, END - 50
    for options, requests_max in (
        ({"startingTimestamp": early}, OF_ONE + COPIED * (SEGMENTS - 1)),
        ({"endingTimestamp": early}, OF_ONE + COPIED * (SEGMENTS - 1)),
        ({"startingTimestamp": late}, OF_ONE * SEGMENTS),
        ({"endingTimestamp": late}, OF_ONE * SEGMENTS),
        ({"startingTimestamp": early, "endingTimestamp": late}, OF_BOTH * SEGMENTS),
    ):
        found = asked(**options)
        assert found.pop("ListObjectsV2") == 1
        assert set(found) == {"GetObject"}
        assert found.total() <= requests_max
