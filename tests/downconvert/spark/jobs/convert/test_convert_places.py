"""A conversion gives the same records wherever a log is kept, to a directory or to a store, in each
format, with and without aborted records."""

import random
from pathlib import Path
from threading import Barrier
from typing import Any, Final, Literal, NamedTuple

import fsspec
import pytest

from downconvert.spark.jobs.convert import convert
from downconvert.spark.jobs.convert.rewrite import Settings
from downconvert.spark.logs.isolation import Committed, committed_of
from downconvert.spark.logs.segment_files import PartitionLog
from records.formats import V0, V1, V2, TimestampType
from tests.downconvert.spark.in_process import SESSION, without_spark
from tests.downconvert.spark.log_places import ABORTED, EVERYTHING, PLACES, STORE
from tests.downconvert.spark.reading import Row, rows
from tests.downconvert.storage.logs import batch, segment

pytestmark = pytest.mark.usefixtures("store_of_this_machine")

# A conversion reads the segments of one copy, and does not ask others for what that lacks.
WHOLE: Final = [name for name in PLACES if "two_brokers" not in name and "damaged" not in name]


class Case(NamedTuple):
    place: str
    to_magic: int
    isolation: Literal["read_uncommitted", "read_committed"]
    is_stored: bool  # the target


def cases() -> list[Case]:
    """Each place with each format. Other options are chosen by chance, but always the same ones."""
    chance = random.Random(28)
    return [
        Case(
            place,
            to_magic,
            chance.choice(["read_uncommitted", "read_committed"]),
            chance.random() < 0.5,
        )
        for place in WHOLE
        for to_magic in (V0, V1, V2)
    ]


@pytest.mark.parametrize("case", cases(), ids=lambda case: "-".join(map(str, case)))
def test_a_converted_log_has_the_records_of_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    (tmp_path / "source").mkdir()
    source = PLACES[case.place](tmp_path / "source")
    target = f"memory://{tmp_path.name}" if case.is_stored else str(tmp_path / "target")
    without_spark(monkeypatch)
    settings = Settings(to_magic=case.to_magic, isolation=case.isolation)
    found: Any = convert.run(SESSION, [str(source)], target, settings)
    assert [row.error for row in found.rows] == [""] * 4
    leaves_out = case.isolation == "read_committed" and case.to_magic != V2
    expected = [
        as_converted(row, case.to_magic)
        for row in EVERYTHING
        if not (leaves_out and row["offset"] in ABORTED)
    ]
    assert rows(target, includeHeaders=True, compacted="a") == expected
    if case.is_stored:
        fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)


def as_converted(row: Row, to_magic: int) -> Row:
    """The row of a record, after its segment was converted."""
    if to_magic == V2:
        return row | {"timestampType": max(row["timestampType"], TimestampType.CREATE)}
    without = {"timestamp": -1000, "timestampType": int(TimestampType.NONE)}
    return row | {"headers": None} | (without if to_magic == V0 else {})


def test_the_transactions_of_several_logs_in_a_store_are_found_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without indexes, a log is read for that, and the tasks do not begin before."""
    (tmp_path / "source").mkdir()
    for name in ("a-0", "b-0"):
        segment(tmp_path / "source" / name, 0, batch(0))
    together = Barrier(2, timeout=60)

    def found(log: PartitionLog) -> Committed:
        together.wait()
        return committed_of(log)

    monkeypatch.setattr(convert, "committed_of", found)
    settings = Settings(to_magic=V1, isolation="read_committed")
    tasks = convert.plan([f"{STORE}{tmp_path / 'source'}"], tmp_path / "target", settings, ())
    assert [task.aborted for task in tasks] == [(), ()]
