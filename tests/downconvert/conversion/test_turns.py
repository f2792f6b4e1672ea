"""A turn of a plan, a send or a conversion passes a bounded part of the log."""

from dataclasses import replace
from itertools import pairwise

import pytest

from downconvert import AbortedTransaction, ConversionPolicy, LazyDownConvertRecords, convert
from downconvert.conversion.engine import COMPRESSED_WEIGHT
from downconvert.conversion.send import UNPRODUCTIVE_MAX
from records import Codec, MemoryRecords, Record, build
from records.units import KiB, MiB

from .channels import Everything

COMMITTED = ConversionPolicy(isolation="read_committed")
ABORTED = [AbortedTransaction(7, 0)]


def aborted_log(codec: Codec, batches: int = 400) -> bytes:
    """About 400 KB of one producer's aborted transaction."""
    return b"".join(
        build(
            [Record(n, 0, value=bytes(range(250)) * 4)],
            magic=2,
            codec=codec,
            transactional=True,
            producer_id=7,
            producer_epoch=0,
            base_sequence=n,
        )
        for n in range(batches)
    )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_plan_passes_aborted_batches_in_steps(codec: Codec) -> None:
    """Another connection has its turn after each chunk, even if nothing is made of it."""
    log = MemoryRecords(aborted_log(codec))
    steps = list(LazyDownConvertRecords.in_steps(log, 1, 0, COMMITTED, aborted=ABORTED))
    assert len(steps) >= log.size // (2 * COMMITTED.chunk_size)


@pytest.mark.parametrize("budget", [None, 32 * KiB])
def test_a_send_passes_aborted_batches_in_turns(budget: int | None) -> None:
    """A turn passes about its budget, or a chunk without a budget."""
    kept = build([Record(1000, 0, value=b"v")], magic=2)
    begin = build([Record(0, 0, value=b"v")], magic=2)
    log = MemoryRecords(begin + aborted_log(Codec.NONE) + kept * 2)
    policy = ConversionPolicy(isolation="read_committed", size="estimate")
    lazy = LazyDownConvertRecords(log, 1, 0, policy, aborted=ABORTED)
    send, channel = lazy.to_send(), Everything()
    turns = [0]
    while send.stats.bytes_in < log.size - 2 * len(kept):
        send.write_to(channel, budget)
        turns.append(send.stats.bytes_in)
    largest = max(after - before for before, after in pairwise(turns))
    assert largest <= 2 * (budget or policy.chunk_size)


def test_a_plan_passes_a_chunk_of_aborted_batches_in_a_step() -> None:
    """A batch of exactly a chunk is enough for a step."""
    data = aborted_log(Codec.NONE, 40)
    policy = replace(COMMITTED, chunk_size=len(data) // 40)
    log = MemoryRecords(data + build([Record(1000, 0, value=bytes(100_000))], magic=2))
    whole = list(LazyDownConvertRecords.in_steps(log, 1, 0, policy, aborted=ABORTED))
    last = list(LazyDownConvertRecords.in_steps(log.slice(len(data), log.size), 1))
    assert len(whole) >= len(last) + 40


@pytest.mark.parametrize("target_codec", ["none", "snappy"])
def test_a_plan_passes_trimmed_records_of_a_large_batch_in_steps(target_codec: str) -> None:
    """Decompressing takes as long for records below the fetch offset as for others."""
    records = [Record(n, 0, value=bytes(1000)) for n in range(2000)]
    log = MemoryRecords(build(records, magic=2, codec=Codec.GZIP))
    policy = ConversionPolicy(recode={"gzip": target_codec})
    steps = list(LazyDownConvertRecords.in_steps(log, 1, 1999, policy))
    assert len(steps) >= 2_000_000 // (2 * 64 * KiB)


def test_decompressing_a_large_record_twice_counts_twice_as_work() -> None:
    """It is read once for its CRC, and once to be compressed again."""
    log = MemoryRecords(build([Record(0, 0, value=bytes(2 * MiB))], magic=2, codec=Codec.GZIP))
    work = list(LazyDownConvertRecords.in_steps(log, 1))
    assert sum(work) >= COMPRESSED_WEIGHT * 2 * 2 * MiB


@pytest.mark.parametrize("target_codec", ["none", "snappy"])
def test_decompressing_a_message_for_its_offsets_and_again_counts_twice_as_work(
    target_codec: str,
) -> None:
    """The offsets inside depend on the last one. A batch states its own."""
    records = [Record(n, 0, value=bytes(1000)) for n in range(1000)]
    policy = ConversionPolicy(recode={"gzip": target_codec})
    for magic, times in ((1, 2), (2, 1)):
        conversion = convert(
            MemoryRecords(build(records, magic=magic, codec=Codec.GZIP)), 0, 0, policy
        )
        before = sum(len(messages) for messages in conversion)
        assert before > 10_000
        decompressed = conversion.work / COMPRESSED_WEIGHT
        assert times * 1_000_000 <= decompressed < (times + 0.5) * 1_000_000


@pytest.mark.parametrize(("codec", "target_codec"), [(Codec.NONE, "none"), (Codec.GZIP, "none")])
def test_a_send_reads_ahead_in_turns(codec: Codec, target_codec: str) -> None:
    """A large record is read for its CRC before its first byte is sent. Others have their turns
    meanwhile."""
    size = 12 * MiB
    log = MemoryRecords(build([Record(0, 0, value=bytes(size))], magic=2, codec=codec))
    policy = ConversionPolicy(recode={"gzip": target_codec}, size="estimate")
    send, channel = LazyDownConvertRecords(log, 1, 0, policy).to_send(), Everything()
    turns = 0
    while not send.write_to(channel, 64 * KiB):
        turns += 1
    assert turns >= size // UNPRODUCTIVE_MAX - 1


def test_measuring_a_large_record_counts_as_work_in_each_step() -> None:
    """Its value is passed over and not read, but Python does it."""
    log = MemoryRecords(build([Record(offset=0, timestamp=0, value=bytes(4 * MiB))], magic=2))
    works = list(LazyDownConvertRecords.in_steps(log, 1))
    assert len(works) > 20
    assert sorted(works)[3] > 10 * KiB  # but of a few between two items
