"""Several sends in one field."""

from io import BytesIO

from downconvert import LazyDownConvertRecords
from downconvert.broker.wire.joined_send import JoinedSend
from records import MemoryRecords
from tests.downconvert.storage.logs import batch


def test_sends_follow_one_another() -> None:
    ranges = [MemoryRecords(batch(0, 1)), MemoryRecords(batch(2)), MemoryRecords(batch(3, 4, 5))]
    converted = [LazyDownConvertRecords(one, 1) for one in ranges]
    alone = b""
    for lazy in converted:
        channel = BytesIO()
        send = lazy.to_send()
        while not send.completed:
            send.write_to(channel)
        alone += channel.getvalue()
    joined = JoinedSend([lazy.to_send() for lazy in converted])
    channel = BytesIO()
    while not joined.completed:
        joined.write_to(channel)
    assert channel.getvalue() == alone
    assert joined.size == len(alone)
    assert joined.write_to(channel) == 0


def test_of_no_sends_there_is_nothing_to_send() -> None:
    assert JoinedSend([]).completed
