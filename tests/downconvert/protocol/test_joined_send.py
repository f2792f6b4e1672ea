"""Several sends in one field."""

from io import BytesIO

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords
from downconvert.protocol.joined_send import JoinedSend
from records import CorruptRecordsError, MemoryRecords
from records.files.sends import Send
from tests.damage import damaged
from tests.downconvert.storage.logs import batch


def write_all(send: Send, channel: BytesIO) -> None:
    while not send.completed:
        send.write_to(channel)


def test_sends_follow_one_another() -> None:
    ranges = [MemoryRecords(batch(0, 1)), MemoryRecords(batch(2)), MemoryRecords(batch(3, 4, 5))]
    converted = [LazyDownConvertRecords(one, 1) for one in ranges]
    alone = b""
    for lazy in converted:
        channel = BytesIO()
        send = lazy.to_send()
        write_all(send, channel)
        alone += channel.getvalue()
    joined = JoinedSend([lazy.to_send() for lazy in converted])
    channel = BytesIO()
    write_all(joined, channel)
    assert channel.getvalue() == alone
    assert joined.size == len(alone)
    assert joined.write_to(channel) == 0


def test_no_sends_have_nothing_to_send() -> None:
    assert JoinedSend([]).completed


def test_an_error_of_one_ends_all_of_them() -> None:
    good, bad = batch(0), damaged(batch(1, 2, 3), field="records_count", to=2)
    estimate = ConversionPolicy(size="estimate")
    first = LazyDownConvertRecords(MemoryRecords(good + bad), 1, policy=estimate)
    second = LazyDownConvertRecords(MemoryRecords(good), 1)
    joined, channel = JoinedSend([first.to_send(), second.to_send()]), BytesIO()
    for _ in range(3):
        with pytest.raises(CorruptRecordsError):
            write_all(joined, channel)
    assert not joined.completed
    assert len(channel.getvalue()) < first.size
