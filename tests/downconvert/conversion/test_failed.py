"""An error is permanent: no filler, no end and no other data follows it."""

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords, convert
from downconvert.conversion import made
from downconvert.conversion.failed import Failed
from downconvert.conversion.send import CHANGED
from records import Codec, CorruptRecordsError, MemoryRecords, Record, build, build_empty
from records.formats import BATCH_HEADER_SIZE
from tests.damage import damaged

from .changing import Changing
from .channels import Everything, sent

ESTIMATE = ConversionPolicy(size="estimate")


def good(offset, codec=Codec.NONE, value=b"v" * 400):
    records = [Record(offset=offset + n, timestamp=0, value=value) for n in range(100)]
    return build(records, magic=2, codec=codec)


def bad(offset):
    return damaged(good(offset), field="records_count", to=99)


def cut(batch):
    """The last record is damaged, and the checksum fits."""
    return damaged(batch, field="records_count", to=101)


def marker():
    """A batch that converts to nothing and has the size of the missing bytes."""
    empty = build_empty(base_offset=100, last_offset=100)
    return empty * (len(good(0) + good(100)) // len(empty))


class Failing(Changing):
    """Records on a disk that fails once, at a position."""

    fails_at = 1 << 62

    def read_into(self, target, position):
        if position + len(target) > self.fails_at:
            self.fails_at = 1 << 62
            raise OSError("input/output error")
        return super().read_into(target, position)


def until_it_fails(send, channel, error):
    """The error that ends a send."""
    with pytest.raises(error) as raised:
        sent(send, channel)
    return raised.value


def write_by(budget, send):
    while not send.completed:
        send.write_to(Everything(), budget)


def test_damage_after_an_estimate_is_raised_again_and_never_filled_up():
    data = good(0) + bad(100) + good(200)
    lazy = LazyDownConvertRecords(MemoryRecords(data), 1, policy=ESTIMATE)
    send, channel = lazy.to_send(), Everything()
    error = until_it_fails(send, channel, CorruptRecordsError)
    before = bytes(channel.taken)
    for _ in range(3):
        assert until_it_fails(send, channel, CorruptRecordsError) is error
    assert channel.taken == before
    assert before.startswith(b"".join(convert(MemoryRecords(good(0)), 1)))
    assert not send.completed
    assert send.remaining == send.size - len(before)
    assert send.stats.filler_bytes == 0


@pytest.mark.parametrize("policy", [ConversionPolicy(), ESTIMATE], ids=["exact", "estimate"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_disk_that_fails_once_fails_the_send_for_good(policy, codec, monkeypatch):
    monkeypatch.setattr(made.budget, "left", 0)  # what is held is not read again
    data = b"".join(good(100 * n, codec, bytes([n]) * 400) for n in range(20))
    records = Failing(data)
    send, channel = LazyDownConvertRecords(records, 1, policy=policy).to_send(), Everything()
    records.fails_at = len(data) * 2 // 3
    error = until_it_fails(send, channel, OSError)
    before = bytes(channel.taken)
    assert until_it_fails(send, channel, OSError) is error
    assert channel.taken == before
    assert not send.completed


@pytest.mark.parametrize("budget", [None, 1 << 20])
@pytest.mark.parametrize("codec", Codec)
def test_a_send_that_failed_holds_no_buffers(codec, budget, in_use):
    """It fails between two batches, or in one that is decompressed piece by piece."""
    value = b"".join(bytes([n % 256, n // 256]) for n in range(2000))
    for number, broken in enumerate((bad(100), cut(good(100, codec, value)))):
        data = good(0, codec, value) + broken + good(200)
        send = LazyDownConvertRecords(MemoryRecords(data), 1, policy=ESTIMATE).to_send()
        with pytest.raises(CorruptRecordsError):
            write_by(budget, send)
        assert in_use == {}, number
        assert send.remaining > 0


@pytest.mark.parametrize("size", [900, 100])
def test_records_that_changed_are_neither_cut_nor_filled_up(size):
    records = Changing(good(0) + good(100))
    send, channel = LazyDownConvertRecords(records, 1).to_send(), Everything()
    records.now = good(0, value=b"w" * size) + (b"" if size == 900 else marker())
    error = until_it_fails(send, channel, CorruptRecordsError)
    assert error.reason == CHANGED
    assert until_it_fails(send, channel, CorruptRecordsError) is error
    assert not send.completed


@pytest.mark.parametrize("batches", [1, 4])
@pytest.mark.parametrize("size", [1, 1000, 30_000])
def test_a_cut_send_is_not_a_failed_send(batches, size):
    """A part of a response ends within a message, whether its messages are made before or not."""
    log = MemoryRecords(b"".join(good(100 * n) for n in range(batches)))
    lazy = LazyDownConvertRecords(log, 1)
    whole = sent(lazy.to_send())
    for end in (size, len(whole) - size):
        assert sent(lazy.to_send(end)) == whole[:end]


def test_a_conversion_that_met_damage_does_not_end():
    conversion = convert(MemoryRecords(good(0) + bad(100)), 1)
    with pytest.raises(CorruptRecordsError) as raised:
        list(conversion)
    with pytest.raises(CorruptRecordsError) as again:
        next(conversion)
    assert again.value is raised.value
    assert raised.value.position >= len(good(0)) + BATCH_HEADER_SIZE


def test_a_conversion_that_has_ended_stays_at_its_end():
    conversion = convert(MemoryRecords(good(0)), 1)
    assert list(conversion)
    assert list(conversion) == []


def test_an_error_that_is_raised_again_has_no_longer_traceback():
    def depth(error):
        frames, traceback = 0, error.__traceback__
        while traceback is not None:
            frames, traceback = frames + 1, traceback.tb_next
        return frames

    failed = Failed(OSError("once"))
    for _ in range(5):
        with pytest.raises(OSError, match="once") as raised:
            next(failed)
    assert depth(raised.value) <= 2
    assert iter(failed) is failed
