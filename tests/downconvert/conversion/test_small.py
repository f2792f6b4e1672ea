"""A small range is made by one call of the kernel, or left to the steps that make any range."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downconvert import ConversionPolicy, LazyDownConvertRecords, eager
from downconvert.conversion import made
from downconvert.conversion.plan import SMALL_SIZE_MAX
from records import Codec, FileRecords, MemoryRecords, Record, build
from tests.damage import mutated
from tests.strategies import Segment, segments

from .channels import sent


def log_of(count: int, codec: Codec = Codec.NONE, size: int = 50) -> bytes:
    """Batches of two records."""
    pairs = (
        [Record(2 * n, 5, value=bytes(size)), Record(2 * n + 1, 6, key=b"k")] for n in range(count)
    )
    return b"".join(build(pair, magic=2, codec=codec) for pair in pairs)


@given(
    segments(), st.sampled_from([0, 1]), st.integers(-1, 40), st.integers(0, 2**32), st.booleans()
)
def test_a_range_made_at_once_is_what_is_converted_eagerly(
    log: Segment, to_magic: int, offset: int, seed: int, is_damaged: bool
) -> None:
    data = log.data
    if is_damaged and data:
        data = mutated(data, Random(seed))
    small = LazyDownConvertRecords.small(MemoryRecords(data), to_magic, offset)
    if small is not None:
        assert (small.is_whole, small.damage, small.is_held) == (True, None, True)
        assert sent(small.to_send()) == eager(MemoryRecords(data), to_magic, offset)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("cut", [0, 1, 20, 70])
def test_ordinary_ranges_are_made_at_once_also_if_the_last_entry_is_torn(
    codec: Codec, cut: int, tmp_path: Path
) -> None:
    data, path = log_of(5, codec), tmp_path / "0.log"
    path.write_bytes(data[: len(data) - cut])
    with FileRecords.open(path) as records:  # the kernel converts all of a file
        small = LazyDownConvertRecords.small(records, 1, 3)
        assert small is not None
        assert sent(small.to_send()) == eager(records, 1, 3)


def test_other_ranges_are_left() -> None:
    large, expanding = log_of(1, size=SMALL_SIZE_MAX), log_of(1, Codec.GZIP, size=made.ENOUGH + 1)
    assert LazyDownConvertRecords.small(MemoryRecords(large), 1) is None
    plain = ConversionPolicy(recode={"gzip": "none"})
    assert LazyDownConvertRecords.small(MemoryRecords(expanding), 1, 0, plain) is None
    estimate = ConversionPolicy(size="estimate")
    assert LazyDownConvertRecords.small(MemoryRecords(log_of(1)), 1, 0, estimate) is None
    refused = ConversionPolicy.kafka()
    assert LazyDownConvertRecords.small(MemoryRecords(log_of(1, Codec.ZSTD)), 1, 0, refused) is None


def test_a_range_that_no_budget_holds_is_made_again_while_it_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(made.budget, "left", 0)
    records = MemoryRecords(log_of(5))
    small = LazyDownConvertRecords.small(records, 1)
    assert small is not None
    assert not small.is_held
    assert sent(small.to_send()) == eager(records, 1)
