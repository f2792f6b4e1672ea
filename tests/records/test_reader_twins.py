"""Both kernels read the same records: the native one many batches at once, and the reference each
batch step by step."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import CorruptRecordsError, MemoryRecords, Record, RecordTooLargeError, build
from records.batches.reader import read, read_batch
from records.formats import Codec
from records.kernel import Buffer
from tests.backends import NAMES, running_on
from tests.damage import mutated
from tests.strategies import SMALL_CONTENTS, Segment, segments

from .examples import GAPS, batch, record
from .kernels import REQUIRE_NATIVE

Outcome = tuple[list[Record], object]
pytestmark = pytest.mark.each_kernel


@pytest.fixture(scope="module", autouse=True)
def native() -> None:
    if len(NAMES) == 1:
        pytest.skip(f"the native kernel has not been built, and {REQUIRE_NATIVE} is not set")


def outcome(kernel: str, data: Buffer, *, verify: bool, size_max: int | None) -> Outcome:
    """The records read, and the error at the end."""
    found: list[Record] = []
    log = MemoryRecords(bytes(9) + bytes(data)).slice(9, len(data))
    with running_on(kernel):
        try:
            found.extend(read(log, verify=verify, record_size_max=size_max))
        except CorruptRecordsError as error:
            return found, (error.reason, error.position, error.inside)
        except RecordTooLargeError as error:
            return found, str(error)
    return found, None


def batch_outcomes(kernel: str, data: Buffer) -> list[Outcome]:
    """The same, batch after batch, also of control batches."""
    outcomes: list[Outcome] = []
    log = MemoryRecords(data)
    with running_on(kernel):
        try:
            for header in log.batches():
                found: list[Record] = []
                error: object = None
                try:
                    found.extend(read_batch(log, header))
                except CorruptRecordsError as damage:
                    error = (damage.reason, damage.position, damage.inside)
                outcomes.append((found, error))
        except CorruptRecordsError as damage:
            outcomes.append(([], str(damage)))
    return outcomes


@given(segment=segments(), size_max=st.sampled_from([None, None, 40_000]))
def test_both_kernels_read_a_log_the_same(segment: Segment, size_max: int | None) -> None:
    found = outcome("native", segment.data, verify=True, size_max=size_max)
    assert found == outcome("reference", segment.data, verify=True, size_max=size_max)
    if size_max is None:
        assert found == (segment.records, None)


@given(
    segment=segments(contents=SMALL_CONTENTS, batches_max=3),
    seed=st.integers(0, 2**32),
    verify=st.booleans(),
)
def test_both_kernels_find_the_same_damage(segment: Segment, seed: int, verify: bool) -> None:
    data = mutated(segment.data, Random(seed))
    found = outcome("native", data, verify=verify, size_max=None)
    assert found == outcome("reference", data, verify=verify, size_max=None)
    assert batch_outcomes("native", data) == batch_outcomes("reference", data)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("count", [511, 512, 1024, 1025])
def test_logs_larger_than_one_call_are_read_the_same(codec: Codec, count: int) -> None:
    small = [Record(number, number, value=b"%d" % number) for number in range(count)]
    log = build(small, magic=2, codec=codec) + GAPS
    found = outcome("native", log, verify=True, size_max=None)
    assert found == outcome("reference", log, verify=True, size_max=None)
    assert len(found[0]) == count + 3


@pytest.mark.parametrize("size", [3_000, 4_080, 4_200, 70_000, 140_000])
def test_records_of_every_size_are_whole(size: int) -> None:
    headers = [(b"k", b"v" * 50), (b"\xff", None)]
    values = [b"a", bytes(size), b"", bytes(size), b"b"]
    made = [record(delta, b"k", value, headers=headers) for delta, value in enumerate(values)]
    log = batch(*made) + GAPS
    found = outcome("native", log, verify=True, size_max=None)
    assert found == outcome("reference", log, verify=True, size_max=None)
    assert [each.value for each in found[0]][:5] == values
