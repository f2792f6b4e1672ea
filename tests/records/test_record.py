"""The compiled class Record behaves like the one in Python."""

import copy
import gc
import pickle
from dataclasses import FrozenInstanceError, asdict, fields, replace
from typing import Any

import pytest

from records import MemoryRecords, Record, TimestampType, build, python_record
from records.batches.reader import read

from .examples import GAPS
from .reading import all_records

FIELDS = [field.name for field in fields(python_record.Record)]


def plain(record: Any) -> Any:
    return python_record.Record(*(getattr(record, name) for name in FIELDS))


def made_and_read() -> list[Record]:
    made = [
        Record(1, 2),
        Record(1, 2, TimestampType.LOG_APPEND, b"key", None, (("k", None), ("\udcff", b"v")), 7),
        Record(offset=-(2**63), timestamp=2**63 - 1, value=b"v" * 10_000, sequence=2**31 - 1),
    ]
    return [*made, *read(MemoryRecords(build(made[:1], magic=2))), *all_records(GAPS)]


@pytest.mark.parametrize("record", made_and_read(), ids=lambda record: f"offset {record.offset}")
def test_a_record_prints_hashes_and_matches_like_the_dataclass(record: Record) -> None:
    assert repr(record) == repr(plain(record))
    assert hash(record) == hash(plain(record))
    assert asdict(record) == asdict(plain(record))
    assert Record.__match_args__ == python_record.Record.__match_args__
    assert isinstance(record.timestamp_type, TimestampType)


@pytest.mark.parametrize("record", made_and_read(), ids=lambda record: f"offset {record.offset}")
def test_copies_are_equal(record: Record) -> None:
    found = [pickle.loads(pickle.dumps(record)), copy.copy(record), copy.deepcopy(record)]
    assert [*found, replace(record)] == [record] * 4
    assert {*found, record} == {record}


def test_records_are_equal_where_dataclasses_are() -> None:
    for one in made_and_read():
        for other in made_and_read():
            assert (one == other) is (plain(one) == plain(other))
            assert (one != other) is (plain(one) != plain(other))


def test_one_field_that_differs_makes_records_differ() -> None:
    record = Record(1, 2, TimestampType.CREATE, b"k", b"v", (("h", b""),), 3)
    changes: dict[str, Any] = {
        "offset": 2,
        "timestamp": 3,
        "timestamp_type": TimestampType.NONE,
        "key": None,
        "value": b"",
        "headers": (("h", None),),
        "sequence": 4,
    }
    assert list(changes) == FIELDS
    for name, value in changes.items():
        other = replace(record, **{name: value})
        assert other != record
        assert getattr(other, name) == value
    assert record != (1, 2)
    with pytest.raises(TypeError):
        _ = record < record  # type: ignore[operator]


def test_a_record_cannot_be_changed() -> None:
    for record in made_and_read():
        for name in FIELDS:
            with pytest.raises((AttributeError, FrozenInstanceError)):
                setattr(record, name, None)


def test_a_record_outlives_its_source() -> None:
    source = bytearray(GAPS)
    found = list(read(MemoryRecords(source)))
    source[:] = bytes(len(source))
    gc.collect()
    assert [record.value for record in found] == [record.value for record in all_records(GAPS)]


def test_the_garbage_collector_does_not_track_read_records() -> None:
    if Record is python_record.Record:
        pytest.skip("the records are Python's")
    assert not any(map(gc.is_tracked, all_records(GAPS)))
