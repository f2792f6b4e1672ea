"""A send that waits for its channel holds only the bytes that the channel has not taken, and no
buffers."""

import gc
import random
import ssl  # noqa: F401 - a send knows the errors of TLS where it is loaded, as in a broker
import tracemalloc

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords
from downconvert.conversion.buffers import SPARES_MAX
from records import Codec, MemoryRecords, Record, build
from records.backend import NAME, NATIVE
from records.units import KiB

from .channels import Everything, sent

SENDS = 1000 if NAME == NATIVE else 30  # the reference takes its time
HELD_MAX = 4 * KiB if NAME == NATIVE else 8 * KiB  # of the reference, a state in Python objects
REST = 500  # bytes that the channel does not take
POLICIES = [
    ConversionPolicy(),
    ConversionPolicy(size="estimate"),
    ConversionPolicy(recode=dict.fromkeys(("gzip", "lz4", "zstd"), "none")),
]


def log_of(codec, size=100, count=2000):
    values = random.Random(3)
    return b"".join(
        build(
            [
                Record(offset=100 * at + n, timestamp=n, value=values.randbytes(size))
                for n in range(100)
            ],
            magic=2,
            codec=codec,
        )
        for at in range(count // 100)
    )


class Full(Everything):
    """Takes all, then all but a little, then nothing."""

    def __init__(self, left=REST):
        super().__init__()
        self._left = left

    def write(self, data):
        self.writes += 1
        if self.writes > 2:
            raise BlockingIOError
        taken = data if self.writes == 1 else data[: max(len(data) - self._left, 1)]
        return len(taken)


class Sleepy(Everything):
    """Takes a part of every piece, and the rest of it later."""

    def write(self, data):
        self.writes += 1
        if self.writes % 3 == 0:
            raise BlockingIOError
        taken = data[: len(data) // 2 + 1]
        self.taken += taken
        return len(taken)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.GZIP])
def test_a_thousand_waiting_sends_hold_4_kib_each_besides_unsent_bytes(codec):
    records = MemoryRecords(log_of(codec))
    lazy = LazyDownConvertRecords(records, 1, 0, ConversionPolicy())

    def waiting(channel):
        send = lazy.to_send()
        for _ in range(5):
            send.write_to(channel)
        assert not send.completed
        return send

    waiting(Full(left=REST))
    channels = [Full(left=REST) for _ in range(SENDS)]
    gc.collect()  # empties Python's lists of free objects: what comes from them is not counted
    tracemalloc.start()
    try:
        sends = [waiting(channel) for channel in channels]
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / len(sends) <= HELD_MAX + REST


@pytest.mark.parametrize("policy", POLICIES, ids=["exact", "estimate", "uncompressed"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("size", [10, 3000, 40_000])
def test_many_sends_that_wait_in_turns_send_the_same_bytes_as_alone(policy, codec, size):
    """They use the same buffers one after the other, and none finds another's bytes."""
    count = min(100, 1_000_000 // size)
    logs = [MemoryRecords(log_of(codec, size, count=count * n)) for n in (1, 2, 3)]
    lazies = [LazyDownConvertRecords(log, magic, 0, policy) for log in logs for magic in (0, 1)]
    expected = [sent(lazy.to_send()) for lazy in lazies]
    sends = [(lazy.to_send(), Sleepy()) for lazy in lazies]
    while not all(send.completed for send, _ in sends):
        for send, channel in sends:
            send.write_to(channel)
    assert [bytes(channel.taken) for _, channel in sends] == expected


def peak_of_a_beginning(send):
    """The bytes that a send allocates until its first piece has been converted."""
    tracemalloc.start()
    try:
        send.write_to(Full(left=1))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_send_that_has_ended_returns_its_buffers():
    """One that waits amid a batch keeps them."""
    records = MemoryRecords(log_of(Codec.LZ4, 3000, 300))  # batches that the kernel leaves
    lazy = LazyDownConvertRecords(records, 1, policy=POLICIES[-1])
    first, *others, second, third = (lazy.to_send() for _ in range(SPARES_MAX + 3))
    for send in (first, *others):  # these take all buffers that are left from before
        send.write_to(Full(left=1))
    alone = peak_of_a_beginning(second)
    sent(first)
    assert first.stats.peak_buffer_bytes >= 64 * KiB
    assert peak_of_a_beginning(third) <= alone - 64 * KiB
