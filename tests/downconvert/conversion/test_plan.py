"""A conversion is planned and sent in steps of bounded work, however large a batch is: counted, not
timed."""

from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords
from downconvert.conversion import send
from downconvert.conversion.converter import COMPRESSED_WEIGHT
from downconvert.conversion.plan import WITHIN
from records import Codec, FileRecords, Record, RecordsError, build
from records.batches.compressed import Decompressed
from records.units import KiB, MiB

from .channels import sent

EXACT = ConversionPolicy()
SIZE = 2 * MiB
STEP_MAX = 512 * KiB  # bytes that a step may read or decompress

HALVES = bytes(range(128)) * 4 + bytes(512)
MANY = [Record(n, 1, key=b"k", value=HALVES) for n in range(SIZE // len(HALVES))]
ONE_AT_THE_END = [
    *(Record(n, 1, value=HALVES) for n in range(SIZE // 2 // len(HALVES))),
    Record(SIZE, 1, value=b"v" * (SIZE // 2)),
]
HEADERS = [Record(0, 1, value=b"v", headers=tuple((f"{n}", b"h" * 300) for n in range(3_000)))]


class Counted:
    """The bytes that are read or decompressed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        for of in (Decompressed, FileRecords):
            monkeypatch.setattr(of, "read_into", self._counting(of.read_into))

    def _counting(self, read_into: Any) -> Any:
        def counted(*args: Any) -> int:
            count: int = read_into(*args)
            self.bytes += count
            return count

        return counted

    def take(self) -> int:
        count, self.bytes = self.bytes, 0
        return count


def log_of(path: Path, *batches: bytes) -> FileRecords:
    path.write_bytes(b"".join(batches))
    return FileRecords.open(path)


@pytest.mark.parametrize(
    ("records", "magic", "codec", "policy"),
    [
        (MANY, 2, Codec.GZIP, EXACT),
        (MANY, 1, Codec.GZIP, EXACT),
        (ONE_AT_THE_END, 2, Codec.NONE, EXACT),
        (ONE_AT_THE_END, 2, Codec.LZ4, EXACT),
        (ONE_AT_THE_END, 1, Codec.LZ4, EXACT),
        (ONE_AT_THE_END, 2, Codec.LZ4, ConversionPolicy.kafka()),
        (HEADERS, 2, Codec.LZ4, EXACT),
    ],
)
def test_no_step_is_longer_for_a_large_batch(
    records: list[Record],
    magic: int,
    codec: Codec,
    policy: ConversionPolicy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = build(records, magic=magic, codec=codec)
    with log_of(tmp_path / "log", data) as log:
        expected = LazyDownConvertRecords(log, magic - 1, policy=policy)
        counted, done = Counted(monkeypatch), [0]
        making = LazyDownConvertRecords.in_steps(log, magic - 1, policy=policy)
        while True:
            try:
                assert next(making) > 0
            except StopIteration as end:
                made = end.value
                break
            finally:
                done.append(counted.take())
        assert max(done) <= STEP_MAX
        assert (made.size, made.is_whole) == (expected.size, expected.is_whole)


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("target_codec", ["none", "gzip"])
def test_a_small_wrapper_size_makes_steps_small_and_not_dear(
    magic: int, target_codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window over what is decompressed is an eighth of it, and no record here fits in one."""
    policy = ConversionPolicy(recode={"lz4": target_codec}, wrapper_size_max=2 * KiB)
    few = MANY[:200]
    with log_of(tmp_path / "log", build(few, magic=magic, codec=Codec.LZ4)) as log:
        counted = Counted(monkeypatch)
        work = list(LazyDownConvertRecords.in_steps(log, magic - 1, policy=policy))
        assert len(work) > len(few)
        done = COMPRESSED_WEIGHT * (counted.take() + log.size)
        assert done <= sum(work) <= done + WITHIN * len(work)
        assert sorted(work)[len(work) // 2] <= WITHIN  # the usual step


def test_what_is_not_wanted_any_more_is_closed(tmp_path: Path) -> None:
    with log_of(tmp_path / "log", build(MANY, magic=2, codec=Codec.GZIP)) as log:
        making = LazyDownConvertRecords.in_steps(log, 1)
        next(making)
        making.close()
        assert next(making, None) is None


def test_damage_ends_the_steps(tmp_path: Path) -> None:
    data = build(MANY, magic=2, codec=Codec.GZIP)
    with log_of(tmp_path / "log", data[:61] + bytes(len(data) - 61)) as log:
        making = LazyDownConvertRecords.in_steps(log, 1)
        with pytest.raises(RecordsError):
            list(making)


@pytest.mark.parametrize("magic", [1, 2])
def test_no_turn_of_a_send_reads_ahead_for_long(
    magic: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a large record for its CRC, and of a compressed message for its last offset."""
    monkeypatch.setattr(send, "UNPRODUCTIVE_MAX", 256 * KiB)
    data = build(ONE_AT_THE_END, magic=magic, codec=Codec.LZ4)
    with log_of(tmp_path / "log", data) as log:
        lazy = LazyDownConvertRecords(log, magic - 1)
        expected = sent(lazy.to_send())
        counted, turns = Counted(monkeypatch), list[int]()
        channel, sending = BytesIO(), lazy.to_send()
        while not sending.completed:
            sending.write_to(channel, 64 * KiB)
            turns.append(counted.take())
        assert channel.getvalue() == expected
        assert max(turns) <= STEP_MAX + MiB
