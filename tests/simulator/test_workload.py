"""The line that a workload is written as."""

import pytest

from records.units import KiB, MiB
from simulator import Workload


def test_a_line_names_options_that_differ_from_the_defaults() -> None:
    workload = Workload.parse("codec=lz4, record=100..1000, size=64MiB, seed=7, headers=0.5")
    assert workload == Workload(codec="lz4", record=(100, 1000), size=64 * MiB, seed=7, headers=0.5)


@pytest.mark.parametrize(
    "line",
    [
        "codec=none,record=100..1000,size=64MiB,seed=1",
        "codec=mixed,record=1..64KiB,size=1000,nulls=0.25,gaps=0.1,seed=1048576",
        "codec=zstd,record=100,size=1KiB,batch=1,segment=8KiB,keys=0,seed=0",
    ],
)
def test_a_workload_is_printed_as_the_line_that_makes_it(line: str) -> None:
    assert str(Workload.parse(line)) == line
    assert Workload.parse(str(Workload.parse(line))) == Workload.parse(line)


def test_an_empty_line_means_all_defaults() -> None:
    assert Workload.parse("") == Workload()
    assert Workload().batch == 16 * KiB


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("lz4", "'lz4' is not one of codec, record, size"),
        ("color=red", "'color=red' is not one of codec, record, size"),
        ("codec=lzma", "codec is one of none, gzip, snappy, lz4, zstd, mixed"),
        ("record=0", "record is 1 to"),
        ("record=9..5", "record is 1 to"),
        ("record=1..", "record: '' is not a size"),
        ("size=much", "size: 'much' is not a size"),
        ("size=0", "size is at least one byte"),
        ("seed=-1", "seed: '-1' is not a whole number"),
        ("keys=2", "keys is a share from 0 to 1"),
        ("keys=nan", "keys is a share from 0 to 1"),
        ("nulls=some", "nulls: 'some' is not a number"),
        ("seed=1,seed=2", "seed is given twice"),
        ("segment=3GiB", "segment is 4KiB to"),
    ],
)
def test_a_wrong_workload_is_an_error_that_shows_the_right_form(line: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Workload.parse(line)
