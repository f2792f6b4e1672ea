"""The kind of evidence is known by its beginning, and any bytes are at worst damage."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downconvert.doctor.kinds import Evidence
from downconvert.doctor.page import when
from records.units import KiB

from .test_metrics_page import ALL, NAMED
from .test_request_log import json_line, text_line
from .wire import packets, pcap, pcapng, read, request

FRAMES = packets(request(1, 2, "app") + request(0, 0, "app", bytes(100)), 50)
ROW = {"client_id": "app", "api": "Fetch", "version": 2, "requests": 1}
EXAMPLES = {
    "pcap": (pcap(FRAMES), "packet capture"),
    "pcapng": (pcapng(FRAMES), "packet capture"),
    "text": (text_line("FETCH", 2).encode(), "request log"),
    "json": (json_line().encode(), "request log"),
    "metrics": (b"# HELP a b\n" + NAMED.encode(), "page of metrics"),
    "bare": (ALL.encode(), "page of metrics"),
    "rows": (json.dumps([ROW], indent=2).encode(), "gateway's report"),
}


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("size", [1, 64 * KiB])
@pytest.mark.parametrize("compressed", [False, True])
def test_each_kind_is_known_by_its_beginning(name: str, size: int, compressed: bool) -> None:
    data, kind = EXAMPLES[name]
    evidence = Evidence()
    found = read(evidence, gzip.compress(data) if compressed else data, size)
    assert found
    assert evidence.kind == kind
    assert not evidence.problems.counts


@pytest.mark.parametrize("name", ["pcap", "text", "json"])
def test_a_slowly_growing_file_is_read_as_it_grows(name: str) -> None:
    evidence = Evidence()
    assert list(evidence.feed(EXAMPLES[name][0])), "before the end"


def test_gzip_files_one_after_the_other_are_one() -> None:
    data = gzip.compress(text_line().encode())
    assert len(read(Evidence(), data + data)) == 2


def test_a_gzip_file_is_read_up_to_its_damage() -> None:
    lines = b"".join(text_line(client=f"client-{n * n}").encode() for n in range(5000))
    damaged = bytearray(gzip.compress(lines))
    damaged[-2000:-1900] = b"\xff" * 100
    evidence = Evidence()
    assert read(evidence, bytes(damaged))
    assert any("gzip" in what for what in evidence.problems.counts)


@given(
    st.sampled_from(sorted(EXAMPLES)),
    st.lists(st.tuples(st.integers(0, 5000), st.binary(max_size=8)), max_size=6),
    st.integers(1, 3000),
)
def test_damage_is_counted_and_never_raised(
    name: str, changes: list[tuple[int, bytes]], size: int
) -> None:
    data = bytearray(EXAMPLES[name][0] * 3)
    for at, new in changes:
        data[at % len(data) : at % len(data) + len(new)] = new
    for one in read(Evidence(), bytes(data), size):
        assert 0 <= one.version < 100
        one.client_id.encode()
        when(one.when)


@given(st.sampled_from([b"", *(data[:4] for data, _ in EXAMPLES.values())]), st.binary())
def test_any_bytes_are_read(beginning: bytes, rest: bytes) -> None:
    assert all(one.requests > 0 for one in read(Evidence(), beginning + rest, 13))


def test_a_gzip_file_that_was_cut_is_reported() -> None:
    """A log that is being rotated, or whose copy is not finished."""
    lines = b"".join(text_line(client=f"client-{n * n}").encode() for n in range(5000))
    evidence = Evidence()
    assert read(evidence, gzip.compress(lines)[:-1])
    assert evidence.problems.counts == {"the gzip file ends too early: its last part is missing": 1}


@pytest.mark.parametrize("size", [1, 64 * KiB])
def test_zeros_after_a_gzip_file_are_padding(size: int) -> None:
    """As `gzip` reads it from a tape, and from a file system that had no time to write the size."""
    member = gzip.compress(text_line().encode())
    evidence = Evidence()
    assert len(read(evidence, member + bytes(700) + member + bytes(3), size)) == 2
    assert not evidence.problems.counts
