"""Where a limit in bytes ends a micro-batch within a segment."""

import tarfile
from pathlib import Path

from downconvert.spark.logs.trees import find_partitions
from downconvert.spark.stream.followed_stored import cut
from tests.downconvert.storage.logs import batch, indexed_segment


def test_a_cut_is_where_the_index_says(tmp_path: Path) -> None:
    batches = [batch(2 * i, 2 * i + 1, size=100) for i in range(20)]
    indexed_segment(tmp_path / "logs-0", 0, *batches)
    packed = tmp_path / "logs.tar"
    with tarfile.open(packed, "w") as tar:
        tar.add(tmp_path / "logs-0", "logs-0")
    (log,) = find_partitions([str(packed)])
    (file,) = log.segments
    size = len(batches[0])
    for start in range(0, 40, 3):
        for limit in (1, size, 3 * size, 5 * size + 7):
            offset, taken = cut(file, start, limit)
            assert offset > start
            wanted = size * (min(offset, 40) // 2 - start // 2)
            assert 0 <= taken - wanted <= 2 * size  # an index says more or less where it is
            assert taken <= limit or min(offset, 40) <= start + 4
    assert cut(file, 0, 10**6) == (file.next_offset, file.size)


# --- of a store alone
