"""Options of a query that vary together: wherever a log is kept, each query reads the part of it
that its options select."""

import json
import random
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from .log_places import (
    ABORTED,
    ABORTED_BATCHES,
    END,
    EVERYTHING,
    HEADERS,
    PLACES,
    TRANSACTIONS,
    note_high_watermark,
)
from .reading import Row, rows

COLUMNS: Final = (
    *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"),
)

pytestmark = pytest.mark.usefixtures("store_of_this_machine")


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
    for end in (0, 7, 13, 16, 18, 19, 20, 21, 25, 26, 27, 29, 30, END):
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


def first_since(time: int) -> int:
    """The offset of the first record that is not older."""
    young = (row["offset"] for row in EVERYTHING if row["timestamp"] >= 1000 * time)
    return next(young, END)
