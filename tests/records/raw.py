"""Hypothesis strategies for bytes that kernels read: good ones, odd ones, and damaged ones.

They are built only from the layouts in formats.py, so they share nothing else with the tested code.

Not here: segments as builders write them (tests/strategies.py)."""

from dataclasses import replace
from random import Random

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from records.formats import (
    BATCH_HEADER_SIZE,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    V0,
    V1,
    V2,
    Codec,
)
from records.units import KiB, MiB
from tests.damage import cut, mutated

from .examples import batch, message, record
from .tracing import Entered, Job

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)

contents = st.none() | st.binary(max_size=6) | st.just(b"v" * 140)
headers = st.just(()) | st.lists(
    st.tuples(st.binary(max_size=4), st.none() | st.binary(max_size=4)), max_size=3
)
timestamps = st.sampled_from([0, 1, 1000]) | st.integers(-1, 2**40) | st.integers(-3, 2**63 - 1)
deltas = st.sampled_from([0, 0, 1, -1]) | st.integers(0, 2**40) | INT64
offsets = st.sampled_from([0, 0, 5, 1000, 2**31, 2**40, 2**63 - 3, -(2**63)]) | INT64
codecs = st.sampled_from([0, 0, 0, *Codec, 5, 7])


@st.composite
def records(draw: DrawFn) -> list[bytes]:
    """Records of a v2 batch: nearly always at increasing offsets."""
    offset = draw(st.sampled_from([0, 0, 0, 3, -2]))
    found = []
    for _ in range(draw(st.integers(0, 5))):
        found.append(
            record(
                offset,
                draw(contents),
                draw(contents),
                timestamp_delta=draw(deltas),
                headers=draw(headers),
            )
        )
        offset = draw(st.sampled_from([offset + 1, offset + 1, offset + 9]) | INT32)
        offset = min(offset, 2**31 - 1)
    return found


@st.composite
def batches(draw: DrawFn, body: list[bytes] | None = None) -> bytes:
    """A v2 batch, whose codec, if it has one, is not the one that its records are written in."""
    body = draw(records()) if body is None else body
    flags = st.sampled_from(
        [0, 0, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, CONTROL | TRANSACTIONAL]
    )
    return batch(
        *body,
        base_offset=draw(offsets),
        attributes=draw(flags) | draw(codecs),
        base_timestamp=draw(timestamps),
        max_timestamp=draw(timestamps),
        last_offset_delta=draw(st.integers(-2, 12) | INT32),
    )


def messages(codec: SearchStrategy[int] = codecs) -> SearchStrategy[bytes]:
    """A v0 or v1 message."""
    return st.builds(
        lambda flags, codec, *args, **fields: message(*args, **fields, attributes=flags | codec),
        st.sampled_from([0, 0, LOG_APPEND_TIME]),
        codec,
        st.sampled_from([V0, V1]),
        offsets,
        contents,
        contents,
        timestamp=timestamps,
    )


@st.composite
def logs(draw: DrawFn) -> bytes:
    """Entries of all formats, mixed, and perhaps torn at the end."""
    entries = draw(st.lists(batches() | messages(), min_size=1, max_size=4))
    log = b"".join(entries)
    torn = draw(st.just(0) | st.integers(0, 100))
    return cut(log, len(log) - torn) if torn else log


@st.composite
def entries(draw: DrawFn) -> bytes:
    """The content of a compressed message."""
    found = []
    offset = draw(st.sampled_from([0, 0, 7]))
    for _ in range(draw(st.integers(0, 4))):
        attributes = draw(st.sampled_from([0, 0, 0, LOG_APPEND_TIME, Codec.GZIP]))
        found.append(
            message(
                draw(st.sampled_from([V0, V1])),
                offset,
                draw(contents),
                draw(contents),
                timestamp=draw(timestamps),
                attributes=attributes,
            )
        )
        offset = draw(st.just(offset + 1) | st.integers(0, 20) | INT64)
        offset = min(offset, 2**63 - 1)
    return b"".join(found)


def maybe_damaged(data: SearchStrategy[bytes]) -> SearchStrategy[bytes]:
    """Unchanged or damaged data."""
    seeds = st.integers(0, 2**32)
    return data | st.builds(lambda data, seed: mutated(data, Random(seed)), data, seeds)


# --- tasks

sizes = st.lists(st.integers(1, 300), min_size=1, max_size=4)
windows = st.just([MiB]) | st.just([1]) | sizes
rooms = st.just([64 * KiB]) | st.just([0]) | sizes
works = st.sampled_from(["transcode", "measure", "columns"])


def jobs(entered: SearchStrategy[Entered | None]) -> SearchStrategy[Job]:
    return st.builds(
        Job,
        work=works,
        to_magic=st.sampled_from([V1, V0]),
        first_offset=st.sampled_from([0, 0, 1, 6, 1001]) | INT64,
        pass_codecs=st.sampled_from([0xFF, 1, 0]) | st.integers(0, 255),
        stop_transactional=st.booleans(),
        entered=entered,
        windows=windows,
        rooms=rooms,
        allows=st.lists(st.booleans(), min_size=1, max_size=3),
        overlong=st.booleans(),
        handles_large=st.booleans(),
    )


@st.composite
def log_tasks(draw: DrawFn) -> tuple[Job, bytes]:
    """In a log; also to v2, which passes everything."""
    job = draw(jobs(st.none()))
    to_magic = draw(st.sampled_from([job.to_magic, job.to_magic, V2]))
    return replace(job, to_magic=to_magic), draw(maybe_damaged(logs()))


@st.composite
def batch_tasks(draw: DrawFn) -> tuple[Job, bytes]:
    """In the records of a batch that has been decompressed."""
    body = draw(records())
    header = draw(maybe_damaged(batches(body)))[:BATCH_HEADER_SIZE]
    entered = st.builds(
        Entered,
        header=st.just(header.ljust(BATCH_HEADER_SIZE, b"\0")),
        wrapper=st.booleans(),
        trim=st.booleans(),
        split_at_gaps=st.booleans(),
    )
    return draw(jobs(entered)), draw(maybe_damaged(st.just(b"".join(body))))


@st.composite
def entries_tasks(draw: DrawFn) -> tuple[Job, bytes]:
    """In the entries of a message that has been decompressed."""
    entered = st.builds(
        Entered,
        to_magic=st.sampled_from([V0, V1]),
        offset_delta=st.sampled_from([0, 5]) | INT64,
        append_time=st.none() | timestamps,
        wrapper=st.booleans(),
        trim=st.booleans(),
        split_at_gaps=st.booleans(),
    )
    return draw(jobs(entered)), draw(maybe_damaged(entries()))


tasks = log_tasks() | batch_tasks() | entries_tasks()
