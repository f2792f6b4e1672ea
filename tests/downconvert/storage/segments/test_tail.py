"""The end of a log: where the last whole batch ends, also while it is being written."""

from pathlib import Path
from random import Random

import pytest

from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.segments.segment import Segment
from downconvert.storage.segments.tail import Tail, next_offset_of
from records import BatchHeader, MemoryRecords
from records.formats import V0
from tests.downconvert.storage.logs import batch, indexed_segment, segment


def test_an_empty_segment_ends_at_its_beginning(tmp_path: Path) -> None:
    tail = Tail(segment(tmp_path, 40))
    tail.advance()
    assert (tail.position, tail.next_offset, tail.damage) == (0, 40, None)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_appended_batches_are_seen(tmp_path: Path, magic: int) -> None:
    made = segment(tmp_path, 40)
    tail = Tail(made)
    with made.path().open("ab", buffering=0) as file:
        for offset in range(40, 50):
            file.write(batch(offset, magic=magic))
            tail.advance()
            assert (tail.position, tail.next_offset) == (file.tell(), offset + 1)


def test_only_whole_batches_count(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, batch(0))
    tail = Tail(made)
    data = batch(1, 2)
    with made.path().open("ab", buffering=0) as file:
        for at in range(len(data)):
            tail.advance()
            assert (tail.next_offset, tail.damage) == (1, None)
            file.write(data[at : at + 1])
        tail.advance()
        assert tail.next_offset == 3


def test_only_the_end_of_an_indexed_segment_is_read(tmp_path: Path) -> None:
    """All before the last entry is not even a log any more."""
    made = indexed_segment(tmp_path, 0, *(batch(n) for n in range(200)), interval=1000)
    size = made.size
    with made.path().open("r+b") as file:
        file.write(b"\xff" * (size - 3 * len(batch(199)) - 1000))
    tail = Tail(made)
    tail.advance()
    assert (tail.position, tail.next_offset) == (size, 200)


def test_zeros_after_the_last_batch_are_room_for_more(tmp_path: Path) -> None:
    """`preallocate=true`: the file was extended beforehand, and is not as long as it seems."""
    made = segment(tmp_path, 0, batch(0), bytes(4000))
    tail = Tail(made)
    tail.advance()
    assert (tail.position, tail.next_offset, tail.damage) == (len(batch(0)), 1, None)
    with made.path().open("r+b") as file:
        file.seek(tail.position)
        file.write(batch(1))
    tail.advance()
    assert (tail.next_offset, tail.damage) == (2, None)


def test_damage_ends_a_log_and_is_reported(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, batch(0), b"\xff" * 100, batch(1))
    tail = Tail(made)
    tail.advance()
    assert (tail.position, tail.next_offset) == (len(batch(0)), 1)
    assert tail.damage is not None
    assert tail.damage.position == len(batch(0))


def test_truncation_is_followed(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, *(batch(n, size=100) for n in range(10)))
    tail = Tail(made)
    tail.advance()
    one = len(batch(0, size=100))
    with made.path().open("r+b") as file:
        file.truncate(3 * one)
        tail.advance()
        assert (tail.position, tail.next_offset) == (3 * one, 3)
        file.truncate(2 * one)
        file.seek(2 * one)
        file.write(batch(2, magic=V0, size=90) + batch(3, 4, 5, size=500))
    tail.advance()
    assert (tail.next_offset, tail.damage) == (6, None)


def test_advance_reports_whether_the_log_only_grew(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, batch(0))
    tail = Tail(made)
    assert tail.advance()  # nothing was seen before that could have been truncated
    assert tail.advance()
    with made.path().open("r+b", buffering=0) as file:
        file.seek(tail.position)
        file.write(batch(1))
        assert tail.advance()
        file.truncate(len(batch(0)))
        assert not tail.advance()
        assert tail.advance()


def test_the_offset_after_a_segment(tmp_path: Path) -> None:
    assert next_offset_of(segment(tmp_path, 5, batch(7, 9))) == 10


def test_an_offset_below_others_does_not_move_the_end_back(tmp_path: Path) -> None:
    """As in a damaged log whose checksums match."""
    assert next_offset_of(segment(tmp_path, 0, batch(5, 6), batch(3))) == 7


def test_positions_of_a_log_that_was_cut_are_not_used_for_the_next(tmp_path: Path) -> None:
    """Without an index the positions of earlier scans are known, some of which lie behind the
    cut, and within a batch by now."""
    made = segment(tmp_path, 0, *(batch(n, size=3000) for n in range(400)))
    tail = Tail(made)
    tail.advance()
    assert made.find(399, made.size) is not None
    with made.path().open("r+b", buffering=0) as file:
        file.truncate(0)
        file.write(b"".join(batch(n, timestamp=7, size=3571) for n in range(390)))
    assert not tail.advance()
    assert (tail.position, tail.next_offset, tail.damage) == (made.size, 390, None)


def one_of(random: Random, offset: int) -> bytes:
    """Few sizes, so that other batches end where those did that were cut."""
    return batch(offset, timestamp=random.randrange(1000), size=random.choice((10, 10, 90)))


def append(data: bytes, offset: int, random: Random) -> bytes:
    return data + b"".join(one_of(random, offset + n) for n in range(random.choice((1, 2, 5))))


def append_part(data: bytes, offset: int, random: Random) -> bytes:
    return data + one_of(random, offset)[: random.choice((1, 16, 17, 61, 70))]


def write_again(data: bytes, offset: int, _: Random) -> bytes:
    """Another leader's batches from there on, that end at the same place."""
    return data + b"".join(batch(n, timestamp=9999, size=10) for n in range(offset, offset + 3))


def damage(data: bytes, _: int, random: Random) -> bytes:
    return data + random.choice((b"\xff" * 100, bytes(100), bytes(16) + b"\x07" * 90))


@pytest.mark.parametrize("seed", range(150))
def test_a_refresh_sees_the_same_as_a_new_reader(tmp_path: Path, seed: int) -> None:
    """And whether the log was cut since the last look, also if it is as long again."""
    random = Random(seed)
    made = segment(tmp_path, 0)
    tail, data, ends = Tail(made), b"", [0]  # ends: of good batches
    for _ in range(12):
        before = data[: ends[-1]]
        kept = random.choice((len(ends) - 1,) * 4 + (random.randrange(len(ends)),))
        del ends[kept + 1 :]
        data = data[: ends[-1]]
        change = random.choice((append, append, append_part, write_again, damage))
        for _ in range(random.choice((0, 1, 1))):
            data = change(data, len(ends) - 1, random)
        with made.path().open("r+b") as file:
            file.truncate(0)
            file.write(data)
        only_grew = tail.advance()
        fresh = Tail(Segment(tmp_path, 0, OpenFiles()))
        fresh.advance()
        assert (tail.position, tail.next_offset) == (fresh.position, fresh.next_offset)
        assert (tail.damage is None) == (fresh.damage is None)
        assert only_grew == (data[: len(before)] == before)
        ends = [0, *(h.position + h.size for h in _headers(data[: tail.position]))]


def _headers(data: bytes) -> list[BatchHeader]:
    return list(MemoryRecords(data).batches())
