"""A batch of keys and values is the one that the general builder makes."""

from types import ModuleType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from records import BatchHeader
from records.batches.builder import build
from records.batches.columns import Columns
from records.batches.keyed_batch import keyed_batch
from records.formats import V2
from tests.records.kernels import KERNELS, each_kernel

DATA = st.none() | st.binary(max_size=300)
TIMES = st.integers(-1, 2**62)
PRODUCERS = st.none() | st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1))


@given(st.lists(st.tuples(DATA, DATA), min_size=1, max_size=200), TIMES, PRODUCERS)
@example([(b"k" * 63, b"v" * 64)], 0, None)
@example([(b"k" * 8191, b"v" * 8192)], 0, (7, 1))
@example([(None, None), (b"", b"")], -1, None)
def test_a_keyed_batch_equals_that_of_the_general_builder(
    pairs: list[tuple[bytes | None, bytes | None]], time: int, producer: tuple[int, int] | None
) -> None:
    keys, values = zip(*pairs, strict=True)
    columns = Columns(range(len(pairs)), [time] * len(pairs), keys, values)
    producer_id, epoch = producer or (-1, -1)
    expected = build(
        columns,
        magic=V2,
        producer_id=producer_id,
        producer_epoch=epoch,
        transactional=producer is not None,
    )
    data, header = keyed_batch(iter(pairs), time, producer)
    assert data == expected
    assert header == BatchHeader.parse(data, 0, 0)
    for kernel in KERNELS:
        assert kernel.keyed_batch(pairs, time, producer) == (data, header[:-1])


@each_kernel
def test_a_batch_without_records_is_refused(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="no records"):
        kernel.keyed_batch([], 0, None)
