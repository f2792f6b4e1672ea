"""A conversion is planned and sent in steps of bounded work, however large a batch is: counted, not
timed."""

from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from downconvert import ConversionPolicy, LazyDownConvertRecords, eager
from downconvert.conversion import plan, send
from downconvert.conversion.engine import COMPRESSED_WEIGHT
from downconvert.conversion.plan import ENTRY_WORK_MIN
from records import (
    Codec,
    FileRecords,
    MemoryRecords,
    Record,
    RecordsError,
    backend,
    build,
    read,
)
from records.batches.compressed import Decompressed
from records.units import KiB, MiB
from tests.damage import damaged
from tests.python_calls import python_calls

from .channels import sent
from .ways import RUNS_ONCE

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


@RUNS_ONCE
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


@RUNS_ONCE
@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("target_codec", ["none", "gzip"])
def test_a_small_wrapper_size_makes_small_and_cheap_steps(
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
        assert done <= sum(work) <= done + ENTRY_WORK_MIN * len(work)
        assert sorted(work)[len(work) // 2] <= ENTRY_WORK_MIN  # the usual step


def small_log(codec: Codec, count: int = 120, **options: Any) -> bytes:
    """Batches of one record, as many producers write them."""
    return b"".join(
        build([Record(n, n, value=b"%d" % n * 40)], magic=2, codec=codec, **options)
        for n in range(count)
    )


@RUNS_ONCE
@pytest.mark.parametrize("policy", [EXACT, ConversionPolicy(trim_compressed=False)])
@pytest.mark.parametrize("codec", list(Codec))
def test_a_small_response_is_made_by_one_call_of_the_kernel(
    codec: Codec, policy: ConversionPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, native = list[int](), backend.Transcoder

    class Counting:
        """A kernel with one function, which counts its calls."""

        def __init__(self, *settings: Any) -> None:
            self._kernel = native(*settings)

        def advance(self, *arguments: Any) -> Any:
            calls.append(1)
            return self._kernel.advance(*arguments)

        def __getattr__(self, name: str) -> Any:
            assert name == "totals"
            return getattr(self._kernel, name)

    with log_of(tmp_path / "log", small_log(codec)) as log:
        expected = eager(log, 1, 7, policy)
        with monkeypatch.context() as patch:
            patch.setattr(backend, "Transcoder", Counting)
            sending = LazyDownConvertRecords(log, 1, 7, policy).to_send()
            assert sent(sending) == expected
        assert len(calls) == 1
        assert sending.stats.bytes_in == log.size


@RUNS_ONCE
@pytest.mark.parametrize("codec", list(Codec))
def test_a_small_response_takes_few_calls_of_python(codec: Codec, tmp_path: Path) -> None:
    def response() -> None:
        sending = LazyDownConvertRecords(log, 1).to_send()
        sending.write_to(channel, MiB)
        assert sending.completed

    with (
        log_of(tmp_path / "log", small_log(codec)) as log,
        (tmp_path / "out").open("wb", buffering=0) as channel,
    ):
        response()  # what is made once
        assert python_calls(response) <= 60


@RUNS_ONCE
@pytest.mark.parametrize(
    ("data", "policy"),
    [
        (small_log(Codec.LZ4, transactional=True, producer_id=7, producer_epoch=0,
                   base_sequence=0), ConversionPolicy(isolation="read_committed")),
        (small_log(Codec.ZSTD), ConversionPolicy(recode={"zstd": "none"})),
        (build(MANY[:50], magic=1, codec=Codec.GZIP), EXACT),
        (small_log(Codec.NONE, 50) + small_log(Codec.GZIP)[:-1], EXACT),
        (b"", EXACT),
    ],
)  # fmt: skip
def test_a_small_response_is_held_even_if_a_decision_is_needed(
    data: bytes, policy: ConversionPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_magic = 0 if data[16:17] == b"\1" else 1
    with log_of(tmp_path / "log", data) as log:
        expected = eager(log, to_magic, 0, policy)
        lazy = LazyDownConvertRecords(log, to_magic, 0, policy)
        monkeypatch.setattr(send, "Converter", None)  # nothing is converted again
        assert lazy.is_whole
        assert sent(lazy.to_send()) == expected


@RUNS_ONCE
@pytest.mark.parametrize("small_size_max", [0, MiB])
def test_recompression_by_the_kernel_counts_as_work(
    small_size_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SMALL_SIZE_MAX", small_size_max)
    with log_of(tmp_path / "log", small_log(Codec.LZ4, 3000)) as log:
        work = list(LazyDownConvertRecords.in_steps(log, 1))
        assert len(work) >= 2
        # The last step, which yields nothing, is no larger than the largest.
        assert sum(work) + max(work) >= COMPRESSED_WEIGHT * log.size


@RUNS_ONCE
def test_damage_ends_a_small_response_before_it(tmp_path: Path) -> None:
    good = small_log(Codec.LZ4, 10)
    bad = damaged(small_log(Codec.LZ4, 1), field="records_count", to=-1)
    with log_of(tmp_path / "log", good + bad + good) as log:
        lazy = LazyDownConvertRecords(log, 1)
        assert lazy.damage is not None
        assert lazy.damage.position == len(good)
        assert sent(lazy.to_send()) == eager(log.slice(0, len(good)), 1)
        with pytest.raises(RecordsError):
            LazyDownConvertRecords(log.slice(len(good), len(bad) + len(good)), 1)


@RUNS_ONCE
@pytest.mark.parametrize("codec", list(Codec))
def test_a_small_response_that_expands_too_much_ends_like_a_large_one(
    codec: Codec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "ENOUGH", 3_000)
    with log_of(tmp_path / "log", small_log(codec)) as log:
        small = LazyDownConvertRecords(log, 1)
        monkeypatch.setattr(plan, "SMALL_SIZE_MAX", 0)
        large = LazyDownConvertRecords(log, 1)
        assert (small.size, small.is_whole) == (large.size, large.is_whole)
        assert small.is_whole == (codec is Codec.NONE)
        assert sent(small.to_send()) == sent(large.to_send())


@RUNS_ONCE
def test_an_abandoned_plan_can_be_closed(tmp_path: Path) -> None:
    with log_of(tmp_path / "log", build(MANY, magic=2, codec=Codec.GZIP)) as log:
        making = LazyDownConvertRecords.in_steps(log, 1)
        next(making)
        making.close()
        assert next(making, None) is None


@RUNS_ONCE
def test_damage_ends_the_steps(tmp_path: Path) -> None:
    data = build(MANY, magic=2, codec=Codec.GZIP)
    with log_of(tmp_path / "log", data[:61] + bytes(len(data) - 61)) as log:
        making = LazyDownConvertRecords.in_steps(log, 1)
        with pytest.raises(RecordsError):
            list(making)


@RUNS_ONCE
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
        assert max(turns) <= STEP_MAX + 256 * KiB


# --- the chunk with a refused batch


def sized(offset: int, size: int, codec: Codec = Codec.NONE) -> bytes:
    """A batch of one record that has this size, or a compressed one that has about this size."""
    value = Random(offset).randbytes(size - 100)
    if codec is Codec.NONE:
        rest = size - len(build([Record(offset, 0, value=value)], magic=2))
        value += bytes(rest)
    return build([Record(offset, 0, value=value)], magic=2, codec=codec)


def sent_by_kafka(sizes: list[int], refused: int) -> int:
    """The number of batches that Kafka sends: whole chunks of 128 KiB after the first batch, before
    the chunk with the refused one. The first batch of a chunk may be larger
    [LazyDownConversionRecords]."""
    sent = at = 1
    while at <= refused:
        size, end = sizes[at], at + 1
        while end < len(sizes) and size + sizes[end] <= 128 * KiB:
            size, end = size + sizes[end], end + 1
        if refused < end:
            return sent
        sent = at = end
    return sent


@given(
    sizes=st.lists(
        st.sampled_from([1, 16, 32, 48, 64, 96, 127, 128, 129, 200]), min_size=2, max_size=12
    ),
    refused=st.integers(1, 11),
)
@example(sizes=[16, 64, 64, 16], refused=3)  # a chunk of exactly 128 KiB
@example(sizes=[16, 96, 48, 96, 16], refused=4)  # a batch that begins a chunk counts once
@settings(max_examples=60)
def test_a_refused_batch_takes_its_chunk_with_it(sizes: list[int], refused: int) -> None:
    refused = min(refused, len(sizes) - 1)
    batches = [
        sized(number, size * KiB, Codec.ZSTD if number == refused else Codec.NONE)
        for number, size in enumerate(sizes)
    ]
    log = MemoryRecords(b"".join(batches))
    received = sent(LazyDownConvertRecords(log, 1, 0, ConversionPolicy.kafka()).to_send())
    found = [record.offset for record in read(MemoryRecords(received))]
    assert found == list(range(sent_by_kafka(list(map(len, batches)), refused)))


def test_a_control_batch_is_dropped_before_its_codec_is_refused() -> None:
    control = build([Record(1, 0, key=bytes(4))], magic=2, codec=Codec.ZSTD, control=True)
    log = MemoryRecords(sized(0, 1000) + control + sized(2, 1000))
    received = sent(LazyDownConvertRecords(log, 1, 0, ConversionPolicy.kafka()).to_send())
    assert [record.offset for record in read(MemoryRecords(received))] == [0, 2]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_compressed_batches_that_become_plain_messages_are_measured_to_their_end(
    magic: int,
) -> None:
    """However many there are, and in steps of Python: nothing of them is made before it is sent."""
    dice = Random(magic)
    log = MemoryRecords(
        b"".join(
            build([Record(n, 1, value=dice.randbytes(200 * KiB))], magic=magic, codec=Codec.GZIP)
            for n in range(1, 11)
        )
    )
    policy = ConversionPolicy(recode={"gzip": "none"})
    lazy = LazyDownConvertRecords(log, 1, 0, policy)
    assert (lazy.is_whole, lazy.is_held, lazy.to_send().converts) == (True, False, True)
    assert lazy.size > 10 * 200 * KiB > plan.ENOUGH
    assert sent(lazy.to_send()) == eager(log, 1, 0, policy)
