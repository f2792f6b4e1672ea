"""A damaged time index leaves out nothing that is not older than a timestamp."""

import shutil
import struct
from pathlib import Path

import pytest

from downconvert.spark.plan import time_entries
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.reading import packed
from tests.downconvert.spark.stream.test_follow import stream
from tests.downconvert.storage.logs import batch, indexed_segment

from .test_times import filtered, offsets

ENTRY = struct.Struct(">qi")  # timestamp, offset from the segment's base
ALL = range(30)


def entries(*given: tuple[int, int]) -> bytes:
    return b"".join(ENTRY.pack(*one) for one in given)


SOUND = entries((140, 4), (190, 9))


INDEXES = [
    SOUND,
    b"",
    entries((140, 4)),  # its last entry is lost
    entries((90, 4)),
    entries((140, 4), (150, 9)),
    entries((140, 4), (150, 7)),
    entries((140, 4), (190, 5)),
    entries((110, 9)),
    entries((110, 9), (190, 9)),
    entries((190, 9), (140, 4)),
    entries((5, -3)),
    entries((5, 900)),
    entries((110, 2**31 - 1)),
    bytes(24),
    SOUND + bytes(24),
    SOUND[:17],
    b"\xff" * 24,
]


@pytest.fixture(params=INDEXES, ids=bytes.hex)
def logs(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A log of three segments, the second of which has this time index."""
    directory = tmp_path / "logs" / "a-0"
    directory.mkdir(parents=True)
    for base in (0, 10, 20):
        indexed_segment(directory, base, *(batch(*range(at, at + 5)) for at in (base, base + 5)))
    path = directory / file_name(10, Kind.TIME_INDEX)
    assert path.read_bytes() == entries((190, 9))
    path.write_bytes(request.param)
    return tmp_path / "logs"


def test_a_timestamp_leads_to_the_first_record(logs: Path) -> None:
    for place in (logs, packed(logs)):
        for at in (100, 101, 130, 141, 151, 190, 191):
            after = [offset for offset in ALL if 10 * offset >= at]
            assert filtered(place, at) == after
            assert offsets(place, startingTimestamp=at) == after
            assert offsets(place, endingTimestamp=at) == [one for one in ALL if one not in after]


@pytest.mark.parametrize("copies", [1, 2])
def test_a_stream_begins_at_the_first_record(logs: Path, copies: int) -> None:
    place = logs
    if copies == 2:
        shutil.copytree(logs / "a-0", logs / "1" / "a-0")
        place = packed(logs)
    for at in (100, 101, 130, 141, 151, 190, 191, 291):
        begins = stream(place, startingTimestamp=at).initialOffset()["a"]["0"]
        assert begins == min((one for one in ALL if 10 * one >= at), default=30)


def test_timestamps_that_fall_are_found_all_the_same(tmp_path: Path) -> None:
    times = [10, 90, 40, 30, 95, 20]
    data = [batch(at, timestamp=time) for at, time in enumerate(times)]
    indexed_segment(tmp_path / "a-0", 0, *data[:4])
    indexed_segment(tmp_path / "a-0", 4, *data[4:])
    for at in range(0, 100, 5):
        first = next((offset for offset, time in enumerate(times) if time >= at), 6)
        assert offsets(tmp_path, startingTimestamp=at) == list(range(first, 6))
        assert filtered(tmp_path, at) == [one for one, time in enumerate(times) if time >= at]


@pytest.mark.parametrize("headers_max", [0, 1, 2])
def test_an_index_that_lacks_its_last_entries_leaves_out_nothing_however_few_headers_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headers_max: int
) -> None:
    monkeypatch.setattr(time_entries, "HEADERS_MAX", headers_max)
    indexed_segment(tmp_path / "a-0", 0, *(batch(at, at + 1) for at in range(0, 10, 2)))
    indexed_segment(tmp_path / "a-0", 10, batch(10, 11))
    path = tmp_path / "a-0" / file_name(0, Kind.TIME_INDEX)
    path.write_bytes(path.read_bytes()[: ENTRY.size])
    for at in range(0, 120, 7):
        after = [offset for offset in range(12) if 10 * offset >= at]
        assert offsets(tmp_path, startingTimestamp=at) == after
        assert filtered(tmp_path, at) == after


@pytest.mark.parametrize("times", [(10, 50, 50, 60), (50, 50, 50, 60), (10, 20, 60, 60)])
def test_a_timestamp_that_an_index_has_twice_leads_to_its_first_batch(
    tmp_path: Path, times: tuple[int, ...]
) -> None:
    """A broker notes only the first one."""
    data = [batch(at, timestamp=time) for at, time in enumerate(times)]
    indexed_segment(tmp_path / "a-0", 0, *data)
    indexed_segment(tmp_path / "a-0", 4, batch(4, timestamp=90))
    noted = [(time, at) for at, time in enumerate(times)]
    (tmp_path / "a-0" / file_name(0, Kind.TIME_INDEX)).write_bytes(entries(*noted))
    for at in (5, 10, 20, 50, 51, 60, 61):
        first = next((offset for offset, time in enumerate(times) if time >= at), 4)
        assert offsets(tmp_path, startingTimestamp=at) == list(range(first, 5))
        assert filtered(tmp_path, at) == [
            one for one, time in enumerate((*times, 90)) if time >= at
        ]


@pytest.mark.parametrize("noted", range(2, 7))
def test_an_entry_whose_offset_no_batch_has_leaves_out_nothing(tmp_path: Path, noted: int) -> None:
    """A cleaner has removed the offsets from 2 to 6. The younger batch lost its entry."""
    indexed_segment(tmp_path / "a-0", 0, batch(0, 1, timestamp=95), batch(7, 8, timestamp=90))
    indexed_segment(tmp_path / "a-0", 9, batch(9, timestamp=99))
    (tmp_path / "a-0" / file_name(0, Kind.TIME_INDEX)).write_bytes(entries((90, noted)))
    for at, first in ((85, 0), (91, 0), (95, 0), (96, 9)):
        wanted = [one for one in (0, 1, 7, 8, 9) if one >= first]
        assert offsets(tmp_path, startingTimestamp=at) == wanted
    assert filtered(tmp_path, 91) == [0, 1, 9]
