"""Only recompressed messages that have been made are promised, and they are made once."""

import gc
import random
from dataclasses import replace
from io import BytesIO

import pytest

from downconvert import (
    AbortedTransaction,
    ConversionPolicy,
    LazyDownConvertRecords,
    convert,
    eager,
)
from downconvert.conversion import made, plan
from downconvert.conversion.converter import Converter
from records import (
    Codec,
    ControlRecordType,
    MemoryRecords,
    Record,
    UnsupportedCodecError,
    build,
    build_empty,
    build_marker,
    read,
)
from records.backend import NAME, NATIVE
from tests.damage import damaged

from .channels import Everything, OneByte, RandomSizes, sent
from .fetching import fetched

SEEDS = 30 if NAME == NATIVE else 10  # the reference takes its time

ENOUGH = 5_000  # bytes
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
DEFAULT = ConversionPolicy()
UNTRIMMED = ConversionPolicy(trim_compressed=False)


def records_from(offset, *, noise, count=40, size=200, step=1):
    """Records: a share of their bytes is noise, and the rest compresses to nothing."""
    dice = random.Random(offset)
    values = (dice.randbytes(int(size * noise)).ljust(size, b"-") for _ in range(count))
    return [
        Record(offset=offset + step * n, timestamp=n, value=value) for n, value in enumerate(values)
    ]


def batch(offset, codec=Codec.GZIP, noise=0.5, **options):
    fields = {name: options.pop(name) for name in ("count", "size", "step") if name in options}
    records = records_from(offset, noise=noise, **fields)
    return build(records, magic=2, codec=codec, **options)


def log_of(*noises, codec=Codec.GZIP):
    return b"".join(batch(100 * n, codec, noise) for n, noise in enumerate(noises))


def offsets(data):
    return [record.offset for record in read(MemoryRecords(data))]


def response(data, policy=DEFAULT, to_magic=1, first_offset=0, channel=None, **options):
    """The sent bytes, and the send."""
    lazy = LazyDownConvertRecords(MemoryRecords(data), to_magic, first_offset, policy, **options)
    send = lazy.to_send()
    written = sent(send, channel)
    assert len(written) == lazy.size == send.stats.bytes_out
    headers = list(MemoryRecords(written).batches())
    assert sum(header.size for header in headers) == len(written)  # all of it whole messages
    assert send.stats.filler_bytes == 0
    return written, send


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("to_magic", [0, 1])
def test_a_response_ends_with_the_message_that_reaches_enough(codec, to_magic):
    data = log_of(*[0.5] * 30, codec=codec)
    written, _ = response(data, to_magic=to_magic)
    assert eager(MemoryRecords(data), to_magic).startswith(written)
    *_, last = MemoryRecords(written).batches()
    assert last.position < plan.ENOUGH <= len(written)


@pytest.mark.parametrize("channel", [OneByte, RandomSizes])
def test_every_channel_gets_the_same_bytes(channel):
    data = log_of(0.5, 0.5, 0.6, 0.2)
    assert response(data, channel=channel())[0] == response(data, channel=Everything())[0]


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("first", [True, False])
def test_a_response_is_as_large_as_its_own_messages_whatever_the_first_batch_is_like(first):
    """gzip cannot follow what is repeated further apart than 32 KiB: one batch grows twentyfold."""
    noise = b"".join(batch(100 * n, Codec.ZSTD, 1.0, size=2000) for n in range(1, 60))
    data = repetitive(0) + noise if first else noise + repetitive(6000)
    lazy = LazyDownConvertRecords(MemoryRecords(data), 1)
    written, _ = response(data)
    assert not lazy.is_whole
    assert eager_of(data).startswith(written)
    assert len(written) < plan.ENOUGH + len(eager_of(repetitive(0)))


def test_the_next_fetch_gets_the_records_left_out():
    data = log_of(0.5, 0.5, codec=Codec.ZSTD) + repetitive(200) + repetitive(300)
    assert not LazyDownConvertRecords(MemoryRecords(data), 1).is_whole
    assert [each.offset for each in fetched(data, 1, 0, DEFAULT)] == offsets(eager_of(data))


@pytest.mark.usefixtures("whole")
def test_messages_made_early_are_sent_and_not_made_again(monkeypatch):
    data = log_of(0.5, 0.9, 0.1, codec=Codec.ZSTD)
    lazy = LazyDownConvertRecords(MemoryRecords(data), 1)
    assert lazy.is_whole
    with monkeypatch.context() as patch:
        patch.setattr(Converter, "advance", None)  # who converted again would call it
        written = sent(lazy.to_send())
    assert written == eager(MemoryRecords(data), 1)
    assert len(written) == lazy.size


def repetitive(offset):
    """Data that zstd compresses well, but gzip does not, because it does not look as far back."""
    far = random.Random(8).randbytes(40_000)
    records = [Record(offset=offset + n, timestamp=0, value=far) for n in range(8)]
    return build(records, magic=2, codec=Codec.ZSTD)


def eager_of(data):
    return eager(MemoryRecords(data), 1)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_fetch_returns_records_and_all_fetches_return_all(seed):
    dice = random.Random(seed)
    parts, offset = [], 0
    for _ in range(dice.randrange(1, 25)):
        codec = dice.choice([*CODECS, Codec.NONE, dice.choice(CODECS)])
        count = dice.choice([1, 2, 40, 200])
        noise, step = dice.random(), dice.choice([1, 1, 1, 3])
        parts.append(batch(offset, codec, noise, count=count, step=step))
        offset += step * count + dice.choice([0, 5])
        if dice.random() < 0.2:
            parts.append(build_empty(base_offset=offset, last_offset=offset + 2))
            offset += 3
    data = b"".join(parts)
    begin = dice.choice([0, 1, offset // 2])
    for to_magic in 0, 1:
        whole = offsets(eager(MemoryRecords(data), to_magic, begin))
        for options in {}, {"recode": {"zstd": "none", "gzip": "snappy"}}, {"chunk_size": 300}:
            policy = ConversionPolicy(**options)
            response(data, policy, to_magic, begin)
            found = fetched(data, to_magic, begin, policy, fetch_size=dice.choice([None, 9000]))
            assert [each.offset for each in found if each.offset >= begin] == [
                each for each in whole if each >= begin
            ]


@pytest.mark.usefixtures("whole")
def test_plain_messages_before_and_after_are_in_the_response():
    data = batch(0, Codec.NONE) + batch(100) + batch(200, Codec.NONE) + batch(300)
    written, _ = response(data)
    assert written == eager_of(data)
    assert LazyDownConvertRecords(MemoryRecords(data), 1).is_whole


def test_plain_messages_before_recompressed_ones_are_not_counted():
    plain = b"".join(batch(100 * n, Codec.NONE) for n in range(20))
    written, _ = response(plain + log_of(*[0.5] * 30))
    assert len(written) >= len(eager_of(plain)) + plan.ENOUGH


def test_plain_messages_after_are_cut_between_two_of_them():
    plain = b"".join(batch(100 * n, Codec.NONE) for n in range(1, 20))
    written, _ = response(batch(0) + plain)
    assert eager_of(batch(0) + plain).startswith(written)
    *_, last = MemoryRecords(written).batches()
    assert last.position < plan.ENOUGH <= len(written)


@pytest.mark.usefixtures("whole")
def test_damage_ends_the_response_before_it():
    data = log_of(0.5, 0.5) + damaged(batch(200), field="records_count", to=41) + batch(300)
    lazy = LazyDownConvertRecords(MemoryRecords(data), 1)
    assert "batch ends before its last record" in str(lazy.damage)
    written, _ = response(data)
    assert offsets(written) == [*range(40), *range(100, 140), *range(200, 240)]
    with pytest.raises(Exception, match="batch ends before its last record"):
        list(convert(MemoryRecords(data), 1))


@pytest.mark.usefixtures("whole")
def test_damage_found_while_planning_is_reported():
    data = log_of(0.5, 0.5) + batch(200)[:16] + b"\x07" + batch(200)[17:]
    lazy = LazyDownConvertRecords(MemoryRecords(data), 1)
    assert lazy.damage is not None
    assert offsets(sent(lazy.to_send())) == [*range(40), *range(100, 140)]


@pytest.mark.usefixtures("whole")
def test_a_refusal_ends_the_response_before_it():
    data = log_of(0.5, 0.5) + batch(200, Codec.ZSTD)
    policy = ConversionPolicy(recode={"zstd": "refuse"})
    lazy = LazyDownConvertRecords(MemoryRecords(data), 1, 0, policy)
    assert isinstance(lazy.damage, UnsupportedCodecError)
    assert offsets(sent(lazy.to_send())) == [*range(40), *range(100, 140)]


def test_a_record_that_is_sent_plainly_is_in_the_response():
    policy = ConversionPolicy(chunk_size=1024, wrapper_size_max=64_000, recode={"zstd": "snappy"})
    large = Record(
        offset=300, timestamp=0, value=bytes(range(256)) * 100 + random.randbytes(63_000)
    )
    data = log_of(0.5, 0.5, 0.5, codec=Codec.ZSTD) + build([large], magic=2, codec=Codec.ZSTD)
    data += batch(400, Codec.ZSTD)
    response(data, policy)
    assert [each.offset for each in fetched(data, 1, 0, policy)] == offsets(
        eager(MemoryRecords(data), 1, 0, policy)
    )


def test_a_response_may_end_between_the_messages_of_one_batch():
    data = b"".join(batch(200 * n, step=3, noise=0.2 + 0.1 * (n % 4)) for n in range(12))
    whole = offsets(eager_of(data))
    written, _ = response(data)
    assert offsets(written) == whole[: len(offsets(written))]
    assert [each.offset for each in fetched(data, 1, 0, DEFAULT)] == whole


@pytest.mark.usefixtures("whole")
def test_aborted_transactions_are_left_out():
    parts = [
        batch(100 * n, transactional=True, producer_id=1 + n % 2, producer_epoch=0, base_sequence=0)
        for n in range(10)
    ]
    parts.append(build_marker(ControlRecordType.ABORT, offset=1000, timestamp=0, producer_id=1))
    policy = ConversionPolicy(isolation="read_committed")
    aborted = [AbortedTransaction(1, 0)]
    written, _ = response(b"".join(parts), policy, aborted=aborted)
    assert {offset // 100 for offset in offsets(written)} == {1, 3, 5, 7, 9}


def test_without_trimming_the_response_has_everything():
    data = log_of(0.1, 0.1, 0.9, 0.5)
    written, _ = response(data, UNTRIMMED)
    assert written == eager(MemoryRecords(data), 1, 0, UNTRIMMED)
    assert LazyDownConvertRecords(MemoryRecords(data), 1, 0, UNTRIMMED).is_whole


def test_a_cut_send_is_the_beginning_of_the_whole():
    data = log_of(0.5, 0.5, 0.5)
    lazy = LazyDownConvertRecords(MemoryRecords(data), 1)
    whole = sent(lazy.to_send())
    for size in 1, 1000, lazy.size - 1:
        assert sent(lazy.to_send(size)) == whole[:size]
    assert lazy.to_send(lazy.size + 1).size == lazy.size


def test_held_messages_count_against_a_budget_until_they_are_sent():
    data = log_of(0.5, 0.5, 0.5)
    gc.collect()  # responses of other tests
    before = made.budget.left
    lazy = LazyDownConvertRecords(MemoryRecords(data), 1)
    send = lazy.to_send()
    del lazy
    assert made.budget.left == before - send.size
    channel = BytesIO()
    send.write_to(channel, send.size - 1)
    assert made.budget.left == before - send.size
    send.write_to(channel)
    assert send.completed
    assert made.budget.left == before


def test_a_write_without_a_budget_takes_a_chunk_of_held_messages(monkeypatch):
    """They follow a plain message, which is converted while it is sent."""
    monkeypatch.setattr(plan, "SMALL_SIZE_MAX", 0)
    policy = ConversionPolicy(chunk_size=1_000)
    plain = batch(0, Codec.NONE, count=1, size=100)
    send = LazyDownConvertRecords(MemoryRecords(plain + batch(100)), 1, 0, policy).to_send()
    channel, held = Everything(), send.size - len(eager_of(plain))
    while send.remaining > held:
        send.write_to(channel)
    assert 3 * policy.chunk_size < send.remaining == held
    assert [send.write_to(channel) for _ in range(3)] == [policy.chunk_size] * 3


@pytest.mark.usefixtures("whole")
def test_messages_sent_in_another_way_do_not_count_against_the_budget_any_more():
    gc.collect()
    before = made.budget.left
    send = LazyDownConvertRecords(MemoryRecords(batch(0)), 1).to_send()
    assert made.budget.left == before - send.size
    send.skip(send.size)
    assert send.completed
    assert made.budget.left == before


@pytest.mark.parametrize("count", [1, 3, 30])
def test_where_the_budget_is_used_up_the_bytes_are_the_same(count, monkeypatch):
    data = log_of(*[0.5] * count, codec=Codec.LZ4)
    written, send = response(data)
    monkeypatch.setattr(made.budget, "left", 0)
    again, other = response(data)
    assert again == written
    if count == 30:  # the message that is cut off is counted as well
        return
    assert replace(other.stats, seconds_converting=0, peak_buffer_bytes=0) == replace(
        send.stats, seconds_converting=0, peak_buffer_bytes=0
    )


@pytest.mark.parametrize("small_size_max", [0, plan.SMALL_SIZE_MAX])
@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.NONE])
@pytest.mark.parametrize("is_held", [True, False])
def test_a_response_is_whole_if_all_is_in_it_and_only_then(
    small_size_max, codec, is_held, monkeypatch
):
    """Wherever enough is reached: at a message's end, one byte before, and one after."""
    monkeypatch.setattr(plan, "SMALL_SIZE_MAX", small_size_max)
    data = log_of(0.5, 0.5) + batch(200, codec) + batch(300)
    whole = eager_of(data)
    ends = [each.position + each.size for each in MemoryRecords(whole).batches()]
    if not is_held:
        monkeypatch.setattr(made.budget, "left", 0)
    for enough in sorted({end + near for end in ends[:4] + ends[-3:] for near in (-1, 0, 1)}):
        monkeypatch.setattr(plan, "ENOUGH", enough)
        written, _ = response(data)
        assert written == whole[: next((end for end in ends if end >= enough), len(whole))]
        lazy = LazyDownConvertRecords(MemoryRecords(data), 1)
        # If the last message makes it enough, no code looks for others.
        assert lazy.is_whole == (written == whole) or ends[-2] < enough <= ends[-1]


@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.parametrize("left", [-1, 0, 1])
def test_messages_end_where_a_response_may_not_have_more(left, is_held, monkeypatch):
    """A smaller limit stands for that of 2 GiB. Some messages are plain, and before those."""
    data = batch(0, Codec.NONE) + log_of(0.5, 0.5, 0.5, 0.5)[len(batch(0)) :]
    data += batch(400, Codec.NONE)
    for policy in DEFAULT, UNTRIMMED:
        whole = eager(MemoryRecords(data), 1, 0, policy)
        ends = [each.position + each.size for each in MemoryRecords(whole).batches()]
        if not is_held:
            monkeypatch.setattr(made.budget, "left", 0)
        monkeypatch.setattr(plan, "SMALL_SIZE_MAX", 0)
        monkeypatch.setattr(plan, "ENOUGH", len(whole))
        for end in ends[40:44] + ends[-2:]:
            monkeypatch.setattr(plan, "RESPONSE_SIZE_MAX", end + left)
            written, _ = response(data, policy)
            assert written == whole[: max(each for each in ends if each <= end + left)]
            lazy = LazyDownConvertRecords(MemoryRecords(data), 1, 0, policy)
            assert lazy.is_whole == (written == whole)


def test_a_small_response_counts_against_the_budget_as_well(monkeypatch):
    data = batch(0)
    gc.collect()
    before = made.budget.left
    lazy = LazyDownConvertRecords(MemoryRecords(data), 1)
    assert made.budget.left == before - lazy.size
    monkeypatch.setattr(made.budget, "left", lazy.size)
    exactly = LazyDownConvertRecords(MemoryRecords(data), 1)
    assert made.budget.left == 0
    again = LazyDownConvertRecords(MemoryRecords(data), 1)
    assert made.budget.left == 0
    whole = eager_of(data)
    monkeypatch.setattr(Converter, "advance", None)  # who converted again would call it
    assert sent(exactly.to_send()) == whole
    with pytest.raises(TypeError):
        sent(again.to_send())


def test_more_messages_than_may_be_held_are_made_again_while_they_are_sent():
    """A response that may not end early would hold all of them otherwise."""
    dice = random.Random(0)
    log = MemoryRecords(
        b"".join(
            build([Record(n, 0, value=dice.randbytes(60_000))], magic=2, codec=Codec.LZ4)
            for n in range(30)
        )
    )
    policy = ConversionPolicy(trim_compressed=False)
    lazy = LazyDownConvertRecords(log, 1, 0, policy)
    send = lazy.to_send()
    assert lazy.size > made.HELD_SIZE_MAX
    assert send.converts
    assert sent(send) == eager(log, 1, 0, policy)
