"""A small range is converted once, while it is planned, mostly by one call of the kernel."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downconvert import ConversionPolicy, LazyDownConvertRecords, eager
from downconvert.conversion import made
from downconvert.conversion.plan import SMALL_SIZE_MAX
from records import Codec, FileRecords, MemoryRecords, Record, RecordsError, backend, build
from tests.damage import mutated
from tests.strategies import Segment, segments

from .channels import Everything, sent
from .ways import RUNS_ONCE, in_both_ways

REFUSING = ConversionPolicy(recode={"zstd": "refuse"})


def log_of(count: int, codec: Codec = Codec.NONE, size: int = 50) -> bytes:
    """Batches of two records."""
    pairs = (
        [Record(2 * n, 5, value=bytes(size)), Record(2 * n + 1, 6, key=b"k")] for n in range(count)
    )
    return b"".join(build(pair, magic=2, codec=codec) for pair in pairs)


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of each conversion that is begun."""
    begun, native = [], backend.Transcoder

    def counted(*settings: Any) -> Any:
        begun.append(settings)
        return native(*settings)

    monkeypatch.setattr(backend, "Transcoder", counted)
    return begun


@given(
    segments(), st.sampled_from([0, 1]), st.integers(-1, 40), st.integers(0, 2**32), st.booleans()
)
@in_both_ways
def test_a_small_range_equals_its_eager_conversion(
    log: Segment, to_magic: int, offset: int, seed: int, is_damaged: bool
) -> None:
    data = log.data
    if is_damaged and data:
        data = mutated(data, Random(seed))
    try:
        small = LazyDownConvertRecords(MemoryRecords(data), to_magic, offset)
    except RecordsError:
        return
    if small.is_whole:
        assert small.is_held or len(data) > SMALL_SIZE_MAX
        assert sent(small.to_send()) == eager(MemoryRecords(data), to_magic, offset)


@RUNS_ONCE
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("cut", [0, 1, 20, 70])
def test_an_ordinary_range_takes_one_step_also_if_the_last_entry_is_torn(
    codec: Codec, cut: int, tmp_path: Path
) -> None:
    data, path = log_of(5, codec), tmp_path / "0.log"
    path.write_bytes(data[: len(data) - cut])
    with FileRecords.open(path) as records:  # the kernel converts all of a file
        steps = LazyDownConvertRecords.in_steps(records, 1, 3)
        with pytest.raises(StopIteration) as end:  # the last step yields nothing
            next(steps)
        assert sent(end.value.value.to_send()) == eager(records, 1, 3)


@RUNS_ONCE
def test_a_small_range_that_expands_takes_one_step(tmp_path: Path) -> None:
    """Ten times its size, which is more than a step of a larger range decompresses."""
    data, path = log_of(10, Codec.LZ4, SMALL_SIZE_MAX), tmp_path / "0.log"
    path.write_bytes(data)
    with FileRecords.open(path) as records:
        steps = LazyDownConvertRecords.in_steps(records, 1)
        with pytest.raises(StopIteration) as end:  # the last step yields nothing
            next(steps)
        assert sent(end.value.value.to_send()) == eager(records, 1)


@pytest.mark.parametrize(
    ("data", "policy"),
    [
        (log_of(5) + log_of(1, Codec.GZIP, SMALL_SIZE_MAX * 3), ConversionPolicy()),  # Python's
        (log_of(1, Codec.GZIP, SMALL_SIZE_MAX * 3) + log_of(9), ConversionPolicy()),
        (log_of(5, Codec.LZ4) + log_of(1)[:-1] + b"?", ConversionPolicy()),
        (log_of(5) + log_of(1, Codec.ZSTD), REFUSING),
        (log_of(90, Codec.GZIP, 4000), ConversionPolicy(recode={"gzip": "none"})),
    ],
)  # fmt: skip
def test_a_small_range_is_converted_once_also_if_the_kernel_does_not_make_all_of_it(
    data: bytes, policy: ConversionPolicy, conversions: list[Any]
) -> None:
    assert len(data) <= SMALL_SIZE_MAX
    small = LazyDownConvertRecords(MemoryRecords(data), 1, 0, policy)
    assert small.is_held
    sent(small.to_send())
    assert len(conversions) == 1


def test_a_small_range_is_held_unless_it_expands_too_much(conversions: list[Any]) -> None:
    """The rules for large ranges then decide how much is sent."""
    records = MemoryRecords(log_of(1, Codec.GZIP, size=made.ENOUGH + 1))
    plain = ConversionPolicy(recode={"gzip": "none"})
    small = LazyDownConvertRecords(records, 1, 0, plain)
    assert (small.is_held, small.is_whole, len(conversions)) == (False, True, 2)
    assert sent(small.to_send()) == eager(records, 1, 0, plain)


def test_a_range_that_converts_to_nothing_is_held_too() -> None:
    nothing = LazyDownConvertRecords(MemoryRecords(log_of(5)), 1, 1000)
    assert (nothing.size, nothing.is_held, nothing.is_whole) == (0, True, True)
    assert bytes(nothing.head()) == sent(nothing.to_send()) == b""


def test_a_range_that_no_budget_holds_is_made_again_while_it_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(made.budget, "left", 0)
    records = MemoryRecords(log_of(5))
    small = LazyDownConvertRecords(records, 1)
    assert not small.is_held
    assert sent(small.to_send()) == eager(records, 1)


@pytest.mark.parametrize("budget", [1, 100, 20_000, 1_000_000])
def test_a_turn_writes_no_more_of_a_held_range_than_its_budget(budget: int) -> None:
    lazy = LazyDownConvertRecords(MemoryRecords(log_of(400)), 1)
    assert lazy.is_held
    send, channel = lazy.to_send(), Everything()
    assert send.write_to(channel, budget) == len(channel.taken) == min(budget, lazy.size)
