"""Options of a query that vary together: wherever a log is kept, each query reads the part of it
that its options select."""

import gzip
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from downconvert.storage.names import HIGH_WATERMARKS
from records import Codec, ControlRecordType, MemoryRecords, Record, build, build_marker, read
from records.formats import V0, V1, V2
from tests.downconvert.storage.logs import batch, indexed_segment, segment

from .reading import Row, expected, packed, rows

COLUMNS: Final = (
    *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"),
)
ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


def of_producer(producer_id: int) -> dict[str, Any]:
    return {"producer_id": producer_id, "producer_epoch": 0, "transactional": True}


def with_headers(*offsets: int) -> bytes:
    found = [Record(n, 10 * n, value=b"%d" % n, headers=[("h", b"%d" % n)]) for n in offsets]
    return build(found, magic=V2, codec=Codec.LZ4)


# Batches by the base offset of their segment. A segment, a batch and a transaction end at different
# offsets, and offsets are missing inside of batches and between them, as after compaction.
LOG: Final = {
    0: (
        batch(0, magic=V0),
        batch(1, magic=V1),
        batch(2, 3, 4, 5, magic=V1, codec=Codec.GZIP),
        batch(6, 7, magic=V0, codec=Codec.SNAPPY),
    ),
    8: (
        batch(8, 9, 10),
        batch(11, 12, 14, codec=Codec.ZSTD),
        batch(15, 16, **of_producer(7)),
        batch(17, 18, codec=Codec.GZIP, **of_producer(8)),
        build_marker(ABORT, offset=19, timestamp=190, producer_id=7),
        build_marker(COMMIT, offset=20, timestamp=200, producer_id=8),
    ),
    21: (with_headers(21, 22, 23), batch(24, 25, **of_producer(7))),
    26: (
        build_marker(ABORT, offset=26, timestamp=260, producer_id=7),
        batch(28, 29, 30, codec=Codec.ZSTD),
        batch(31, size=300),
    ),
}
ABORTED: Final = {15, 16, 24, 25}
ABORTED_BATCHES: Final = {15, 19, 24, 26}  # with the markers that end them
TRANSACTIONS: Final = ((15, 19), (17, 20), (24, 26))  # first offset, and that of the marker
END: Final = 32
HEADERS: Final = [
    header for data in LOG.values() for header in MemoryRecords(b"".join(data)).batches()
]
EVERYTHING: Final = [
    {"topic": "a", "partition": 0, **row}
    for data in LOG.values()
    for row in expected(read(MemoryRecords(b"".join(data))))
]


class Case(NamedTuple):
    """Options that stay the same while the offsets vary."""

    place: str
    level: str
    committed: bool
    verify: bool
    mode: str
    size: int  # bytes of a task
    columns: tuple[str, ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        given: dict[str, Any] = {
            "level": self.level,
            "isolation": "read_committed" if self.committed else "read_uncommitted",
            "verifyCrc": self.verify,
            "mode": self.mode,
            "maxPartitionBytes": self.size,
            "includeHeaders": self.level == "record" and "headers" in (self.columns or COLUMNS),
        }
        return given | ({"columns": ",".join(self.columns)} if self.columns else {})


def mounted(path: Path) -> Path:
    for base, data in LOG.items():
        indexed_segment(path / "a-0", base, *data)
    return path


def without_indexes(path: Path) -> Path:
    for base, data in LOG.items():
        segment(path / "a-0", base, *data)
    return path


def in_a_tar(path: Path) -> Path:
    (path / "logs").mkdir()
    return packed(mounted(path / "logs"))


def gzipped(path: Path) -> Path:
    for log in (mounted(path) / "a-0").glob("*.log"):
        log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
        log.unlink()
    return path


def on_two_brokers(path: Path) -> Path:
    """One copy lacks the second segment, the other the end of the last one."""
    for broker in ("one", "two"):
        (path / broker).mkdir(parents=True)
        mounted(path / broker)
    (path / "one" / "a-0" / f"{8:020d}.log").unlink()
    (path / "two" / "a-0" / f"{26:020d}.log").write_bytes(LOG[26][0])
    return path


def with_a_damaged_copy(path: Path) -> Path:
    """The copy that goes further has a damaged batch in each of two segments."""
    on_two_brokers(path)
    shutil.copytree(path / "two" / "a-0", path / "one" / "a-0", dirs_exist_ok=True)
    for base, number in ((0, 2), (8, 1)):
        data = list(LOG[base])
        data[number] = data[number][:-1] + bytes([data[number][-1] ^ 1])
        (path / "one" / "a-0" / f"{base:020d}.log").write_bytes(b"".join(data))
    (path / "one" / "a-0" / f"{26:020d}.log").write_bytes(b"".join(LOG[26]))
    return path


PLACES: Final[dict[str, Callable[[Path], Path]]] = {
    made.__name__: made
    for made in (
        mounted,
        without_indexes,
        in_a_tar,
        gzipped,
        on_two_brokers,
        with_a_damaged_copy,
    )
}


def cases() -> list[Case]:
    """Each place with each level, and other options by chance, but always the same ones."""
    chance = random.Random(26)
    found = []
    for number, place in enumerate(PLACES):
        kinds = [("record", False), ("record", True)]
        kinds += [("batch", number % 2 == 0), ("count", number % 2 == 1)]
        for level, committed in kinds:
            # without checksums nobody sees that a value has changed
            verify = place == "with_a_damaged_copy" or chance.random() < 0.5
            mode = chance.choice(["FAILFAST", "PERMISSIVE", "DROPMALFORMED"])
            size = chance.choice([100, 200, 10_000])
            are_some = level == "record" and chance.random() < 0.7
            columns = ("offset", *chance.sample(COLUMNS, 3)) if are_some else ()
            columns = tuple(dict.fromkeys(columns))
            found.append(Case(place, level, committed, verify, mode, size, columns))
    return found


@pytest.mark.parametrize("case", cases(), ids=lambda case: "-".join(map(str, case[:5])))
def test_any_part_of_a_log_equals_that_part_of_the_whole(tmp_path: Path, case: Case) -> None:
    path = PLACES[case.place](tmp_path)
    for start in range(END):
        end = (start + 1, min(start + 4, END), END)[start % 3]
        given = {"startingOffsets": at(start), "endingOffsets": at(end)}
        found = rows(path, **given, **case.options)
        assert seen(case, found) == wanted(case, start, end), (start, end)


def at(offset: int) -> str:
    return json.dumps({"a": {"0": offset}})


def seen(case: Case, found: list[Row]) -> Any:
    """The values of the rows to compare: a number, places of batches, or records."""
    assert all(row.get("_corrupt") is None for row in found)
    if case.level == "count":
        return sum(row["records"] for row in found)
    if case.level == "batch":
        return sorted((row["baseOffset"], row["lastOffset"]) for row in found)
    found = sorted(found, key=lambda row: row["offset"])
    names = case.columns or COLUMNS
    return [{name: row[name] for name in names} for row in found]


def wanted(case: Case, start: int, end: int) -> Any:
    """The same of the whole log, as `batch` has made it."""
    if case.level == "batch":
        return sorted(
            (one.base_offset, one.last_offset)
            for one in HEADERS
            if one.last_offset >= start and one.base_offset < end
            if not (case.committed and one.base_offset in ABORTED_BATCHES)
        )
    found = [
        row
        for row in EVERYTHING
        if start <= row["offset"] < end and not (case.committed and row["offset"] in ABORTED)
    ]
    if case.level == "count":
        return len(found)
    return [{name: row[name] for name in case.columns or COLUMNS} for row in found]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("committed", [False, True])
def test_times_select_from_the_first_record_that_is_not_older(
    tmp_path: Path, place: str, committed: bool
) -> None:
    """Up to the first one that is as young as the end. Old messages have no time."""
    path = PLACES[place](tmp_path)
    isolation = "read_committed" if committed else "read_uncommitted"
    for time in (0, 25, 40, 105, 150, 185, 225, 245, 255, 275, 310, 325):
        for duration in (10, 95):
            start, end = first_since(time), first_since(time + duration)
            found = rows(
                path,
                isolation=isolation,
                startingTimestamp=time,
                endingTimestamp=time + duration,
                columns="offset",
            )
            assert [row["offset"] for row in found] == [
                row["offset"]
                for row in EVERYTHING
                if start <= row["offset"] < end and not (committed and row["offset"] in ABORTED)
            ], (time, duration)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("level", ["record", "count"])
@pytest.mark.parametrize("committed", [False, True])
def test_nothing_from_the_high_watermark_on_is_read(
    tmp_path: Path, place: str, level: str, committed: bool
) -> None:
    """The highest one of the copies counts. A transaction is open if its marker is not below the
    bound."""
    path = PLACES[place](tmp_path)
    for end in (0, 7, 13, 16, 18, 19, 20, 21, 25, 26, 27, 30, END):
        note_high_watermark(path, end)
        stable = min([end, *(first for first, last in TRANSACTIONS if first < end <= last)])
        wanted = [
            offset
            for offset in (row["offset"] for row in EVERYTHING)
            if offset < (stable if committed else end) and not (committed and offset in ABORTED)
        ]
        isolation = "read_committed" if committed else "read_uncommitted"
        options = {"isolation": isolation, "level": level, "stopAtHighWatermark": True}
        found = rows(path, **options)
        if level == "count":
            assert sum(row["records"] for row in found) == len(wanted), end
        else:
            assert [row["offset"] for row in found] == wanted, end


def note_high_watermark(path: Path, offset: int) -> None:
    """Notes a high watermark beside each copy: the offset, and earlier ones beside others."""
    is_tar = path.suffix == ".tar"
    logs = path.with_suffix("") if is_tar else path
    for number, directory in enumerate(sorted(logs.rglob("a-0"))):
        noted = offset // (1 + number)
        (directory.parent / HIGH_WATERMARKS).write_text(f"0\n1\na 0 {noted}\n")
    if is_tar:
        packed(logs)


def first_since(time: int) -> int:
    """The offset of the first record that is not older."""
    young = (row["offset"] for row in EVERYTHING if row["timestamp"] >= 1000 * time)
    return next(young, END)
