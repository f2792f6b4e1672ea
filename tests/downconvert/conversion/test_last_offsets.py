"""Batches with offsets at the edge of 64 bits. Compressed or not, with either kernel, they convert
to the same records, or give the same damage.

Compaction leaves a batch its last offset, whatever records it takes: base offset and last offset
delta may add up to more than 2**63 - 1, though no record's offset does."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from downconvert import ConversionPolicy, LazyDownConvertRecords
from records import Codec, CorruptRecordsError, MemoryRecords, read
from records.codecs import compress
from records.formats import V1, V2
from tests.backends import NAMES, running_on
from tests.records.examples import batch, record

from .channels import sent

OFFSET_MAX = 2**63 - 1
DELTA_MAX = 2**31 - 1
PLAIN = ConversionPolicy(recode={"gzip": "none", "zstd": "none"})
GZIPPED = ConversionPolicy(recode={"zstd": "gzip"})

edges = st.sampled_from([-OFFSET_MAX - 1, -DELTA_MAX, -1, 0, OFFSET_MAX - DELTA_MAX, OFFSET_MAX])
bases = st.builds(
    lambda edge, near: min(max(edge + near, -OFFSET_MAX - 1), OFFSET_MAX),
    edges,
    st.integers(-20, 20),
)
deltas = st.sampled_from([-DELTA_MAX - 1, -5, 0, 3, 19, DELTA_MAX])

pytestmark = pytest.mark.each_kernel


def log_of(codec: Codec, base: int, last_delta: int, records: list[int]) -> MemoryRecords:
    body = b"".join(record(delta, b"key", b"value") for delta in records)
    fields = {
        "base_offset": base,
        "last_offset_delta": last_delta,
        "records_count": len(records),
        "attributes": codec,
    }
    data = compress(codec, body, magic=V2, compression_level="fast") if codec else body
    return MemoryRecords(batch(compressed=data, **fields))


def outcome(log: MemoryRecords, first_offset: int, policy: ConversionPolicy) -> tuple[bytes, str]:
    """The sent bytes, and the error after them."""
    try:
        lazy = LazyDownConvertRecords(log, V1, first_offset, policy)
    except CorruptRecordsError as error:
        return b"", error.reason
    return sent(lazy.to_send()), getattr(lazy.damage, "reason", "")


@settings(max_examples=40)
@given(
    base=bases,
    last_delta=deltas,
    records=st.lists(st.integers(-2, 20), max_size=4).map(sorted),
    first=bases,
)
@example(base=OFFSET_MAX - 5, last_delta=19, records=[0, 1, 5], first=OFFSET_MAX - 4)
@example(base=OFFSET_MAX - 5, last_delta=DELTA_MAX, records=[0], first=0)
def test_a_batch_becomes_the_same_whether_it_is_compressed_or_not(
    base: int, last_delta: int, records: list[int], first: int
) -> None:
    logs = [log_of(codec, base, last_delta, records) for codec in (Codec.NONE, Codec.GZIP)]
    found = set()
    for name in NAMES:
        with running_on(name):
            found |= {outcome(log, first, PLAIN) for log in logs}
    assert len(found) == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
@pytest.mark.parametrize("policy", [PLAIN, GZIPPED], ids=["to plain", "to gzip"])
def test_records_of_a_batch_whose_last_offset_was_compacted_away_are_not_lost(
    name: str, codec: Codec, policy: ConversionPolicy
) -> None:
    base = OFFSET_MAX - 5
    with running_on(name):
        log = log_of(codec, base, 10, [0, 2, 5])
        response, damage = outcome(log, base + 1, policy)
        offsets = [one.offset for one in read(MemoryRecords(response))]
    assert (offsets, damage) == ([base + 2, OFFSET_MAX], "")
