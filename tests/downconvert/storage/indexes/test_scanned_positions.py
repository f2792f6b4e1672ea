"""A segment without an index is scanned once, and what is noted says no more than a whole scan
does."""

from pathlib import Path
from random import Random
from struct import pack_into
from typing import Final

import pytest

from downconvert.storage.indexes.scanned_positions import INTERVAL, POSITIONS_MAX, ScannedPositions
from records import FileRecords
from records.files.file_records import SharedFile
from records.units import KiB
from tests.downconvert.storage.logs import batch, segment

HEAD: Final = 61  # bytes of a batch without its records


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The position of each read, in its file."""
    found: list[int] = []
    read_into = FileRecords.read_into

    def counted(self: FileRecords, target: memoryview, position: int) -> int:
        found.append(self.origin + position)
        return read_into(self, target, position)

    monkeypatch.setattr(FileRecords, "read_into", counted)
    return found


def test_reading_through_a_segment_reads_each_header_once(tmp_path: Path, reads: list[int]) -> None:
    made = segment(tmp_path, 0, *(batch(n, size=8 * KiB) for n in range(200)))
    size = made.size
    for offset in range(0, 200, 10):
        found = made.read(offset, 64 * KiB, size)
        assert found is not None
        assert next(found.batches()).base_offset == offset
    # From the last place on, at most 64 KiB before it: nine headers more at each of twenty steps.
    assert len(reads) < 200 + 20 * 9


def test_a_scanned_position_is_found_without_scanning_from_the_beginning(
    tmp_path: Path, reads: list[int]
) -> None:
    made = segment(tmp_path, 0, *(batch(n, size=8 * KiB) for n in range(100)))
    size = made.size
    assert made.find(99, size) is not None
    reads.clear()
    found = made.find(50, size)
    assert found is not None
    assert found[1].base_offset == 50
    assert found[0] - min(reads) < 2 * INTERVAL


@pytest.mark.parametrize("seed", range(5))
def test_positions_find_the_same_batches_as_a_scan_even_if_offsets_decrease(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    bases = [max(0, n * 10 + random.choice((0, 3, -200, 150))) for n in range(60)]
    batches = [batch(base, base + 2, size=random.choice((10, 30 * KiB))) for base in bases]
    made = segment(tmp_path, 0, *batches)
    size = made.size
    for _ in range(40):
        offset = random.randrange(800)
        fresh = segment(tmp_path, 0, *batches).find(offset, size)
        assert is_same(made.find(offset, size), fresh)
        end = sum(map(len, batches[: random.randrange(60)]))
        assert is_same(made.find(offset, end), segment(tmp_path, 0, *batches).find(offset, end))


def is_same(one: object, other: object) -> bool:
    """Whether both are the same batch; its position counts from where each scan began."""
    if one is None or other is None:
        return one is other
    (at, header), (other_at, other_header) = one, other  # type: ignore[misc]
    return at == other_at and header._replace(position=0) == other_header._replace(position=0)


def test_positions_of_one_file_do_not_apply_to_another(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, *(batch(n, size=8 * KiB) for n in range(50)))
    assert made.find(49, made.size) is not None
    made.release()
    segment(tmp_path, 0, *(batch(n, size=10 * KiB) for n in range(100, 150)))
    found = made.find(120, made.size)
    assert found is not None
    assert found[1].base_offset == 120


def test_the_number_of_positions_is_bounded(tmp_path: Path) -> None:
    path, count = tmp_path / "0.log", 3 * POSITIONS_MAX
    head = bytearray(batch(0)[:HEAD])
    with path.open("wb") as file:  # heads alone, and holes instead of what they announce
        for number in range(count):
            pack_into(">qi", head, 0, number, INTERVAL - 12)
            file.seek(number * INTERVAL)
            file.write(head)
        file.truncate(count * INTERVAL)
    scanned = ScannedPositions(SharedFile(path))
    _, headers = scanned.scan(count, count * INTERVAL)
    assert sum(1 for _ in headers) == count
    assert POSITIONS_MAX // 2 < len(scanned) <= POSITIONS_MAX
    records, headers = scanned.scan(count // 2, count * INTERVAL)
    assert count // 2 - 8 < next(headers).base_offset <= count // 2
    assert records.origin % INTERVAL == 0
