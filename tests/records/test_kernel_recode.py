"""`recode` makes the same messages of a compressed entry at once as streaming does."""

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.codecs import compress
from records.formats import (
    BATCH_HEADER_SIZE,
    LOG_APPEND_TIME,
    MESSAGE_OVERHEAD,
    V0,
    V1,
    V2,
    Codec,
)
from records.kernel import Outcome
from records.units import MiB
from tests.damage import mutated

from . import raw
from .examples import batch, damaged, message, record
from .kernels import KERNELS, REQUIRE_NATIVE, each_kernel
from .recoding import (
    RECORDS,
    WRITTEN,
    Job,
    compressed_batch,
    compressed_message,
    offsets,
    opened,
    streamed,
)

each_codec = pytest.mark.parametrize("codec", WRITTEN)


# --- good entries


@each_kernel
@each_codec
@pytest.mark.parametrize("source", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("to_magic", [V0, V1])
@pytest.mark.parametrize("fast", [True, False])
def test_a_batch_is_recoded_to_the_same_messages_as_by_streaming(
    kernel: ModuleType, codec: Codec, source: Codec, to_magic: int, fast: bool
) -> None:
    job = Job(to_magic=to_magic, codec=codec, fast=fast)
    many = [record(delta, b"key", b"value %d" % delta) for delta in range(300)]
    entry = compressed_batch(source, *many, base_offset=100)
    made = job.run(job.transcoder(kernel), entry)
    assert made is not None
    assert opened(made) == streamed(kernel, job, entry)
    assert made == job.run(job.transcoder(kernel), entry)  # whatever was compressed before


@each_kernel
@pytest.mark.parametrize("split_at_gaps", [True, False])
@pytest.mark.parametrize("first_offset", [0, 101, 104, 106, 107])
def test_gaps_and_the_first_offset_cut_as_in_streaming(
    kernel: ModuleType, split_at_gaps: bool, first_offset: int
) -> None:
    job = Job(first_offset=first_offset, split_at_gaps=split_at_gaps)
    entry = compressed_batch(Codec.GZIP, *RECORDS, base_offset=100, last_offset_delta=6)
    made = job.run(job.transcoder(kernel), entry)
    assert made is not None
    assert opened(made) == (streamed(kernel, job, entry) if first_offset < 107 else [])
    gaps = split_at_gaps and first_offset < 103
    assert len(opened(made)) == (2 if gaps else first_offset < 107)


@each_kernel
@pytest.mark.parametrize(
    ("to_magic", "split_at_gaps", "first_offset", "expected"),
    [
        (V1, True, 0, [(102, 1009, [0, 1, 2]), (106, 1003, [0, 1])]),
        (V1, True, 102, [(102, 1007, [0]), (106, 1003, [0, 1])]),
        (V1, True, 106, [(106, 1001, [0])]),
        (V1, False, 0, [(106, 1009, [0, 1, 2, 5, 6])]),
        (V1, False, 102, [(106, 1007, [0, 3, 4])]),
        (V0, True, 102, [(106, None, [102, 105, 106])]),  # v0 has no relative offsets
    ],
)
def test_offsets_and_timestamps_are_those_of_each_message_alone(
    kernel: ModuleType,
    to_magic: int,
    split_at_gaps: bool,
    first_offset: int,
    expected: list[tuple[int, int | None, list[int]]],
) -> None:
    times = {0: 5, 1: 9, 2: 7, 5: 3, 6: 1}
    records = [record(delta, timestamp_delta=time) for delta, time in times.items()]
    entry = compressed_batch(Codec.GZIP, *records, base_offset=100, last_offset_delta=6)
    job = Job(to_magic=to_magic, first_offset=first_offset, split_at_gaps=split_at_gaps)
    made = job.run(job.transcoder(kernel), entry)
    assert made is not None
    assert [(one.offset, one.timestamp, offsets(one.inner)) for one in opened(made)] == expected


@each_kernel
@each_codec
@pytest.mark.parametrize(("magic", "to_magic"), [(V0, V0), (V1, V0), (V1, V1), (V0, V1)])
@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME])
@pytest.mark.parametrize(("offset", "torn"), [(9, 0), (0, 0), (9, 1), (9, 30)])
def test_a_compressed_message_is_recoded_to_the_same_messages_as_by_streaming(
    kernel: ModuleType,
    codec: Codec,
    magic: int,
    to_magic: int,
    attributes: int,
    offset: int,
    torn: int,
) -> None:
    """`torn`: bytes of one more message inside, which is ignored."""
    job = Job(to_magic=min(to_magic, magic), codec=codec)
    inner = b"".join(message(magic, at, b"k", b"value" * 20) for at in range(3))
    attributes &= -magic  # v0 has no such attribute
    tail = message(magic, 3, b"k", b"value")[:torn]
    entry = compressed_message(Codec.LZ4, magic, offset, inner + tail, attributes=attributes)
    made = job.run(job.transcoder(kernel), entry)
    assert made is not None
    if magic == V1 and offset == 0:  # absolute inside
        offset = 2
    entry = compressed_message(Codec.LZ4, magic, offset, inner, attributes=attributes)
    assert opened(made) == streamed(kernel, job, entry)


@each_kernel
def test_empty_entries_and_those_below_the_first_offset_make_no_messages(
    kernel: ModuleType,
) -> None:
    for entry in (
        compressed_batch(Codec.GZIP),
        compressed_batch(Codec.GZIP, *RECORDS, last_offset_delta=6),
        compressed_message(Codec.GZIP, V1, 9, message(V1, 9)),
    ):
        transcoder = Job(first_offset=10).transcoder(kernel)
        assert Job(first_offset=10).run(transcoder, entry) == b""
        assert transcoder.totals == (0, 0, 0, 0)


@each_kernel
def test_a_batch_whose_last_records_are_gone_makes_no_message_from_there_on(
    kernel: ModuleType,
) -> None:
    """After compaction, its header still states the offset of its former last record."""
    entry = compressed_batch(Codec.GZIP, *RECORDS, last_offset_delta=9)
    for first_offset in (7, 9):
        job = Job(first_offset=first_offset)
        assert job.run(job.transcoder(kernel), entry) == b""


@each_kernel
def test_totals_include_the_entry_and_the_wrappers(kernel: ModuleType) -> None:
    job = Job()
    transcoder = job.transcoder(kernel)
    entry = compressed_batch(Codec.GZIP, *RECORDS)
    made = job.run(transcoder, entry)
    assert made is not None
    wrappers = opened(made)
    temporary = sum(len(found.inner) + MESSAGE_OVERHEAD[V1] for found in wrappers)
    decompressed = len(batch(*RECORDS)) - BATCH_HEADER_SIZE
    assert transcoder.totals == (5, 1, len(entry) + temporary, decompressed)
    plain = batch(record(0))
    target = bytearray(1000)
    transcoder.accept_next_entry()
    assert transcoder.transcode(plain, 0, len(plain), len(plain), target, 0, 1000) == (
        *(len(plain), MESSAGE_OVERHEAD[V1] + 2),
        Outcome.END,
    )


# --- entries for a stream


def entries_for_a_stream() -> dict[str, bytes]:
    good = compressed_batch(Codec.GZIP, *RECORDS)
    inner = message(V1, 0)
    return {
        "nothing": b"",
        "a part": good[:-1],
        "more": good + b"\0",
        "another size": good[:8] + b"\xff\xff\xff\xff" + good[12:],
        "no header": good[:8] + (18).to_bytes(4) + good[12:30],
        "unknown magic": damaged(good, magic=3, checksum="wrong"),
        "not compressed": batch(*RECORDS),
        "unknown codec": damaged(good, attributes=5),
        "damaged data": damaged(good, at=80, bytes=b"\xff\xff\xff\xff"),
        "too many records": damaged(good, records_count=6),
        "too few records": damaged(good, records_count=4),
        "another codec": damaged(good, attributes=Codec.SNAPPY),
        "zstd in v1": message(V1, 0, None, b"\x28\xb5\x2f\xfd", attributes=Codec.ZSTD),
        "no value": message(V1, 0, None, None, attributes=Codec.GZIP),
        "no messages": compressed_message(Codec.GZIP, V1, 0, b""),
        "offset below the last": compressed_message(Codec.GZIP, V1, 4, message(V1, 5)),
        "compressed inside": compressed_message(
            Codec.GZIP, V1, 0, compressed_message(Codec.GZIP, V1, 0, inner)
        ),
    }


@each_kernel
@pytest.mark.parametrize("what", entries_for_a_stream())
def test_damaged_entries_are_left_to_streaming_and_nothing_changes(
    kernel: ModuleType, what: str
) -> None:
    transcoder = Job().transcoder(kernel)
    assert Job().run(transcoder, entries_for_a_stream()[what]) is None
    assert transcoder.totals == (0, 0, 0, 0)
    assert (transcoder.in_batch, transcoder.append_time, transcoder.damage) == (False, None, None)
    assert Job().run(transcoder, compressed_batch(Codec.GZIP, *RECORDS)) is not None


@each_kernel
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_entries_that_expand_beyond_the_limit_are_left_to_streaming(
    kernel: ModuleType, codec: Codec
) -> None:
    large = record(0, None, bytes(300_000))
    entry = compressed_batch(codec, large)
    size = len(large)
    for job, is_done in [
        (Job(body_size_max=size), True),
        (Job(body_size_max=size - 1), False),
        (Job(body_size_max=0), False),
        (Job(inner_size_max=300_000 + MESSAGE_OVERHEAD[V1]), True),
        (Job(inner_size_max=300_000 + MESSAGE_OVERHEAD[V1] - 1), False),
    ]:
        assert (job.run(job.transcoder(kernel), entry) is not None) == is_done


@each_kernel
def test_messages_many_times_as_large_as_their_records_are_made(kernel: ModuleType) -> None:
    entry = compressed_batch(Codec.LZ4, *(record(delta, None, None) for delta in range(5000)))
    job = Job(body_size_max=65_000)
    made = job.run(job.transcoder(kernel), entry)
    assert made is not None
    assert sum(len(found.inner) for found in opened(made)) == 5000 * MESSAGE_OVERHEAD[V1]


@each_kernel
def test_invalid_arguments_are_refused(kernel: ModuleType) -> None:
    entry = compressed_batch(Codec.GZIP, *RECORDS)
    for codec in Codec.NONE, Codec.ZSTD, 5, 255:
        with pytest.raises(ValueError, match=r"\w"):
            Job(codec=codec).run(Job().transcoder(kernel), entry)  # type: ignore[arg-type]
    for sizes in {"body_size_max": -1}, {"inner_size_max": -1}:
        with pytest.raises(ValueError, match=r"\w"):
            Job(**sizes).transcoder(kernel)  # type: ignore[arg-type]
    for start, end in (-1, 5), (0, len(entry) + 1), (5, 4):
        with pytest.raises(ValueError, match=r"\w"):
            Job().transcoder(kernel).recode(entry, start, end, 1)
    entered = Job().transcoder(kernel)
    entered.enter_batch(entry, 0, True)
    with pytest.raises(ValueError, match=r"\w"):
        Job().run(entered, entry)
    assert Job().run(Job(to_magic=V2).transcoder(kernel), entry) is None


# --- any entries


@st.composite
def tasks(draw: st.DrawFn) -> tuple[Job, bytes]:
    sides = st.booleans()
    job = Job(
        to_magic=draw(st.sampled_from([V0, V1, V1, V2])),
        first_offset=draw(st.sampled_from([0, 0, 6, 1001]) | raw.INT64),
        codec=draw(st.sampled_from(WRITTEN)),
        fast=draw(sides),
        trim=draw(sides),
        split_at_gaps=draw(sides),
        body_size_max=draw(st.sampled_from([MiB, 100])),
        inner_size_max=draw(st.sampled_from([MiB, 100])),
    )
    codec = draw(st.sampled_from([Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]))
    if draw(sides):
        body = draw(raw.records())
        header = draw(raw.batches(body))[:BATCH_HEADER_SIZE]
        data = compress(codec, b"".join(body), magic=V2, compression_level="fast")
        entry = damaged(header + data, attributes=codec, size=len(data) + BATCH_HEADER_SIZE - 12)
    else:
        magic = draw(st.sampled_from([V0, V1]))
        codec = draw(st.sampled_from(WRITTEN))
        inner = draw(raw.entries()) + draw(st.sampled_from([b"", b"\0", message(magic, 0)[:-1]]))
        data = compress(codec, inner, magic=magic, compression_level="fast")
        attributes = codec | draw(st.sampled_from([0, LOG_APPEND_TIME]))
        offset = draw(raw.offsets)
        timestamp = draw(raw.timestamps)
        entry = message(magic, offset, None, data, timestamp=timestamp, attributes=attributes)
    if draw(st.integers(0, 3)) == 0:
        entry = mutated(entry, draw(st.randoms(use_true_random=False)))
    return job, entry


@given(task=tasks())
def test_both_kernels_recode_to_the_same_messages(task: tuple[Job, bytes]) -> None:
    if len(KERNELS) == 1:
        pytest.skip(f"the native kernel has not been built, and {REQUIRE_NATIVE} is not set")
    job, entry = task
    results = []
    for kernel in KERNELS:
        transcoder = job.transcoder(kernel)
        made = job.run(transcoder, entry)
        state = (
            transcoder.totals,
            *(transcoder.in_batch, transcoder.append_time, transcoder.damage),
        )
        results.append((None if made is None else opened(made), state))
    assert results[0] == results[1]
