"""Reassembly: whatever happens to segments, a request is seen unchanged, and at most once."""

import random
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from downconvert.doctor import streams
from downconvert.doctor.capture import Capture
from downconvert.doctor.evidence import Problems, Seen
from downconvert.doctor.packets import SYN, Segment
from downconvert.doctor.streams import Streams

from .wire import (
    api_versions,
    ethernet,
    ipv4,
    packets,
    pcap,
    read,
    request,
    requests_in,
    tcp,
)

# Bodies of zeros: no byte of them begins a request.
REQUESTS = [(api, version, size) for api, version, size in (
    (18, 0, 0), (3, 1, 10), (1, 2, 60), (0, 2, 5000), (1, 4, 70), (0, 1, 900), (2, 0, 30),
)]  # fmt: skip
STREAM = b"".join(request(api, version, "app", bytes(size)) for api, version, size in REQUESTS)
EXPECTED = [(api, version) for api, version, _ in REQUESTS]


def seen_in(frames: list[bytes]) -> tuple[list[Seen], Capture]:
    capture = Capture()
    return read(capture, pcap(frames)), capture


@given(st.integers(1, 1500), st.integers(0, 2**32 - 1), st.randoms(use_true_random=False))
def test_reordered_and_repeated_segments_give_the_sent_requests(
    size: int, start: int, chance: random.Random
) -> None:
    first, *rest = packets(STREAM, max(size, len(STREAM) // 100), start=start)
    rest += chance.sample(rest, len(rest) // 3)
    chance.shuffle(rest)
    found, capture = seen_in([first, *rest])
    assert requests_in(found) == EXPECTED
    assert not capture.problems.counts


@given(st.lists(st.tuples(st.integers(0, len(STREAM)), st.integers(1, 3000)), max_size=40))
def test_overlapping_segments_are_read_once(cuts: list[tuple[int, int]]) -> None:
    every = [(at, 500) for at in range(0, len(STREAM), 500)]
    reader = Streams(Problems())
    found = list(reader.take(Segment("c", 1, "b", 9092, 0, SYN, b"", 0)))
    for at, size in cuts + every:
        data = STREAM[at : at + size]
        found += reader.take(Segment("c", 1, "b", 9092, at, 16, data, len(data)))
    found += reader.end()
    assert [(one.api, one.version) for _, one in found] == EXPECTED


@given(st.integers(20, 1500), st.sets(st.integers(0, 400)))
@example(97, {0})  # a segment of records begins as a request without a client id does
def test_lost_segments_lose_requests_and_make_none_up(size: int, lost: set[int]) -> None:
    first, *rest = packets(STREAM, size)
    left = [frame for number, frame in enumerate(rest) if number not in lost]
    found, capture = seen_in([first, *left])
    assert not Counter(requests_in(found)) - Counter(EXPECTED)
    if len(found) < len(EXPECTED) and left and left[-1] is rest[-1]:
        assert capture.problems.counts


def test_bytes_lost_inside_a_request_lose_no_other_request() -> None:
    stream = request(0, 2, "app", bytes(100_000)) + request(1, 3, "app")
    first, *rest = packets(stream, 1000)
    found, _ = seen_in([first, *rest[:10], *rest[90:]])
    assert requests_in(found) == [(0, 2), (1, 3)]


def test_a_capture_that_begins_within_a_request_continues_with_the_next_one() -> None:
    _, *rest = packets(STREAM, 100)
    requests = packets(request(1, 2, "late"), 100, start=1000 + 100 * len(rest))
    found, _ = seen_in([*rest[3:], *requests[1:]])
    assert (found[-1].api, found[-1].version, found[-1].client_id) == (1, 2, "late")


def test_packets_cut_off_by_the_capture_keep_their_requests() -> None:
    cut = [frame[:160] for frame in packets(STREAM + STREAM, 1400)]
    found, capture = seen_in(cut)
    assert {(18, 0), (3, 1)} <= set(requests_in(found)) <= set(EXPECTED)
    assert capture.problems.counts


def test_ports_that_are_used_again_are_another_connection() -> None:
    named = packets(api_versions("librdkafka", "1.4.2") + request(1, 2), 100, start=5)
    again = packets(request(1, 3), 100, start=2_000_000)
    found, _ = seen_in(named + again)
    assert [one.software for one in found] == ["librdkafka 1.4.2", "librdkafka 1.4.2", ""]


def test_connections_and_early_segments_take_limited_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "CONNECTIONS_MAX", 10)
    monkeypatch.setattr(streams, "ALL_KEPT_MAX", 5000)
    problems = Problems()
    connections = Streams(problems)
    for port in range(100):
        list(connections.take(Segment("c", port, "b", 9092, 0, SYN, b"", 0)))
        list(connections.take(Segment("c", port, "b", 9092, 10, 16, bytes(1000), 1000)))
        assert len(connections) <= 10
        assert connections.kept <= 5000
    assert sum(problems.counts.values()) > 80


def test_one_connection_keeps_few_early_segments() -> None:
    problems = Problems()
    connections = Streams(problems)
    list(connections.take(Segment("c", 1, "b", 9092, 0, SYN, b"", 0)))
    for number in range(1, 1000):
        list(connections.take(Segment("c", 1, "b", 9092, number * 1000, 16, bytes(500), 500)))
        assert connections.kept <= streams.KEPT_MAX
    assert problems.counts["gaps in what clients sent"] > 100


def test_the_longer_of_two_early_segments_is_kept() -> None:
    """A client that sends again joins what it has sent since."""
    first, second, third = request(3, 1), request(1, 2), request(0, 1)
    at = 1000 + len(first)
    early = [tcp(second[:9], at), tcp(second + third, at), tcp(second, at)]
    frames = [tcp(b"", 999, flags=SYN), *early, tcp(first, 1000)]
    found, capture = seen_in([ethernet(ipv4(segment)) for segment in frames])
    assert requests_in(found) == [(3, 1), (1, 2), (0, 1)]
    assert not capture.problems.counts


@pytest.mark.parametrize("distance", [streams.AHEAD_MAX + 1000, -streams.AHEAD_MAX - 1000])
def test_a_sequence_number_far_away_is_another_connection(distance: int) -> None:
    """Its SYN was not captured."""
    start = 2**30
    frames = [
        tcp(b"", start - 1, flags=SYN),
        tcp(request(3, 1), start),
        tcp(request(1, 2), start + distance),
    ]
    found, _ = seen_in([ethernet(ipv4(segment)) for segment in frames])
    assert requests_in(found) == [(3, 1), (1, 2)]
