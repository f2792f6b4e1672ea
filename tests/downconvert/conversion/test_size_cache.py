"""What was measured for one client serves the next, and nothing that may have changed does."""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import perf_counter

import pytest

from downconvert import AbortedTransaction, ConversionPolicy, LazyDownConvertRecords
from downconvert.conversion import plan
from downconvert.conversion.request import Request
from downconvert.conversion.size_cache import SizeCache, sizes
from records import Codec, FileRecords, MemoryRecords, Record, RecordsError, build
from records.files.source import Records

from .channels import sent

POLICY = ConversionPolicy()
REQUEST = Request.of(1, 0, POLICY, ())


@pytest.fixture(autouse=True)
def _no_answer_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SMALL_SIZE_MAX", 0)


def planned(cache: SizeCache, records: Records, request: Request) -> plan.Plan:
    return plan.at_once(cache.planning(records, request, perf_counter))


def batch(offset: int, codec: Codec = Codec.NONE, size: int = 100) -> bytes:
    return build([Record(offset, 7, value=bytes([offset]) * size)], magic=2, codec=codec)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch(0) + batch(1))
    return path


@pytest.fixture
def log(path: Path) -> Iterator[FileRecords]:
    with FileRecords.open(path) as log:
        yield log.sealed()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4])
def test_the_next_client_gets_the_same_answer_without_measuring(codec: Codec, path: Path) -> None:
    # So much that compressed answers end early.
    values = [Random(n).randbytes(20_000) for n in range(9)]
    batches = [build([Record(n, 7, value=v)], magic=2, codec=codec) for n, v in enumerate(values)]
    path.write_bytes(b"".join(batches) + batches[0][:-1])
    with FileRecords.open(path) as log:
        hits, misses = sizes.hits, sizes.misses
        first, second = (LazyDownConvertRecords(log.sealed(), 1) for _ in range(2))
        assert (sizes.hits - hits, sizes.misses - misses) == (1, 1)
        assert (first.size, first.is_whole) == (second.size, second.is_whole)
        converted = sent(second.to_send())
        assert len(converted) == second.size
        assert converted == sent(first.to_send())


def test_what_is_settled_is_measured_once_while_its_file_is_open(path: Path) -> None:
    cache = SizeCache()
    with FileRecords.open(path) as log:
        with path.open("ab") as file:
            file.write(batch(2))  # which changes nothing of what was there
        for _ in range(2):
            planned(cache, log.settled(), REQUEST)
            planned(cache, log.settled().slice(0, len(batch(0))), REQUEST)
    with FileRecords.open(path) as opened_anew:
        planned(cache, opened_anew.settled().slice(0, log.size), REQUEST)
    assert (cache.hits, cache.misses) == (2, 3)


@pytest.mark.parametrize("trims", [True, False])
@pytest.mark.parametrize("to_magic", [0, 1])
@pytest.mark.parametrize("codec", list(Codec))
def test_the_bytes_are_the_same_for_every_chunk_size(
    codec: Codec, to_magic: int, trims: bool, path: Path
) -> None:
    # Records that are larger than some windows, in batches that are larger than all of them.
    values = Random(1).randbytes(5 * 20_000)
    for count, size in (20, 20_000), (6, 100_000):
        records = [Record(n, 7, value=(values[n:] * 6)[:size]) for n in range(count)]
        path.write_bytes(build(records, magic=2, codec=codec))
        with FileRecords.open(path) as log:
            made = set()
            for chunk_size in (8 * 1024, 128, 1024 * 1024):
                policy = ConversionPolicy(chunk_size=chunk_size, trim_compressed=trims)
                lazy = LazyDownConvertRecords(log.settled(), to_magic, 0, policy)
                made.add(sent(lazy.to_send()))
            assert len(made) == 1


@pytest.mark.parametrize(
    "other",
    [
        Request.of(0, 0, POLICY, ()),
        Request.of(1, 1, POLICY, ()),
        Request.of(1, 0, ConversionPolicy(recode={"lz4": "gzip"}), ()),
    ],
)
def test_another_request_is_measured(log: FileRecords, other: Request) -> None:
    cache = SizeCache()
    planned(cache, log, REQUEST)
    planned(cache, log, other)
    planned(cache, log.slice(0, log.size - 1), REQUEST)
    assert (cache.hits, cache.misses) == (0, 3)


def test_what_may_change_is_measured_each_time(path: Path) -> None:
    cache = SizeCache()
    committed = ConversionPolicy(isolation="read_committed")
    with FileRecords.open(path) as log:
        for _ in range(2):
            planned(cache, log, REQUEST)
            planned(cache, MemoryRecords(path.read_bytes()), REQUEST)
            planned(cache, log.sealed(), Request.of(1, 0, committed, [AbortedTransaction(9, 0)]))
    assert (cache.hits, cache.misses, len(cache)) == (0, 0, 0)


def test_a_file_that_was_cut_and_written_again_is_measured_again(
    log: FileRecords, path: Path
) -> None:
    cache = SizeCache()
    before = planned(cache, log, REQUEST)
    with path.open("r+b") as file:  # as a follower does whose leader had other records
        file.truncate(len(batch(0)))
        file.seek(0, os.SEEK_END)
        file.write(batch(1, size=50) + batch(2, size=50)[:20])
        file.write(bytes(log.size - file.tell()))
    os.utime(path, ns=(0, 1))  # a clock's tick may be coarser than this test
    assert path.stat().st_size == log.size
    after = planned(cache, log, REQUEST)
    assert (cache.hits, cache.misses) == (0, 2)
    assert after.size != before.size


def test_a_file_in_the_place_of_another_is_measured(log: FileRecords, path: Path) -> None:
    cache = SizeCache()
    before = planned(cache, log, REQUEST)
    cleaned = path.with_suffix(".log.cleaned")
    cleaned.write_bytes(batch(0) + batch(1, size=99) + b"\0")
    cleaned.rename(path)
    with FileRecords.open(path) as log_after:
        assert log_after.size == log.size
        assert planned(cache, log_after.sealed(), REQUEST).size == before.size - 1
    assert planned(cache, log, REQUEST) == before  # whoever reads the old one still may
    assert (cache.hits, cache.misses) == (1, 2)


def test_the_sizes_used_last_are_kept_and_no_more(log: FileRecords) -> None:
    cache = SizeCache(entries_max=2)
    requests = [Request.of(1, offset, POLICY, ()) for offset in range(3)]
    for number in (0, 1, 0, 2, 0, 1):
        planned(cache, log, requests[number])
    assert (cache.hits, cache.misses, len(cache)) == (2, 4, 2)


def test_damage_is_found_by_each(path: Path) -> None:
    cache = SizeCache()
    path.write_bytes(batch(0) + batch(1)[:-1] + b"?" + batch(2))
    with FileRecords.open(path) as log:
        first, second = (planned(cache, log.sealed(), REQUEST) for _ in range(2))
        assert first.size == second.size
        assert isinstance(first.damage, RecordsError)
        assert first.damage is not second.damage
    assert not len(cache)
