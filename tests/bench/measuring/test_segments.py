"""Segments to measure on."""

import pytest

from bench.measuring.rounds import fetches, records_in
from bench.measuring.segments import SHAPES, segment
from records import FileRecords
from records.units import KiB

SIZE = 64 * KiB


@pytest.mark.parametrize("name", SHAPES)
def test_a_segment_is_the_same_bytes_each_time_it_is_built(name, tmp_path):
    first = segment(SHAPES[name], size=SIZE, directory=tmp_path / "first")
    second = segment(SHAPES[name], size=SIZE, directory=tmp_path / "second")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("name", SHAPES)
def test_a_segment_holds_batches_of_its_shape_and_nothing_else(name, tmp_path):
    shape = SHAPES[name]
    path = segment(shape, size=SIZE, directory=tmp_path)
    with FileRecords.open(path) as log:
        batches = list(log.batches())
        assert sum(batch.size for batch in batches) == log.size
    assert {batch.codec for batch in batches} == {shape.codec}
    if shape.batch_size:
        assert max(batch.size for batch in batches) <= shape.batch_size + 100
    else:
        assert {batch.records_count for batch in batches} == {1}


@pytest.mark.parametrize("fetch_size", [1, 10_000, 20_000, 10**9])
def test_fetches_are_whole_batches_and_leave_nothing_out(fetch_size, tmp_path):
    path = segment(SHAPES["mixed"], size=SIZE, directory=tmp_path)
    ranges = fetches(path, fetch_size)
    position = records = 0
    with FileRecords.open(path) as log:
        for start, size, first_offset in ranges:
            assert start == position
            batches = list(log.slice(start, size).batches())
            assert batches[0].base_offset == first_offset
            assert sum(batch.size for batch in batches) == size
            assert size <= fetch_size or len(batches) == 1
            position += size
            records += sum(batch.records_count for batch in batches)
        assert position == log.size
    assert records == records_in(path)
