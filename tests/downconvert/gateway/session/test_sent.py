"""Which conversions of a sent response are counted, and which responses a thread must write."""

from io import BytesIO
from pathlib import Path
from typing import Final

import pytest

from downconvert import LazyDownConvertRecords, LazyDownConvertSend
from downconvert.conversion.recode import LazyRecodedRecords, LazyRecodedSend
from downconvert.gateway.session.census import ClientCensus, ClientKey
from downconvert.gateway.session.sent import converts, count
from downconvert.protocol.joined_send import JoinedSend
from downconvert.protocol.requests import RequestHeader
from downconvert.protocol.responses import ResponseSend, response
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, FileRecords, MemoryRecords
from records.files.sends import Send
from records.formats import V1
from tests.downconvert.storage.logs import batch

KEY: Final = ClientKey("c", "", "10.0.0.7", "Fetch", 2)
LARGE: Final = 40_000  # bytes of a record: some of them are more than is converted while planning


def converted(*batches: bytes) -> LazyDownConvertSend:
    return LazyDownConvertRecords(MemoryRecords(b"".join(batches)), V1).to_send()


def recoded(*offsets: int) -> LazyRecodedSend:
    records = MemoryRecords(batch(*offsets, codec=Codec.ZSTD))
    return LazyRecodedRecords(records, {"zstd": "gzip"}).to_send()


def fetched(*records: "Send | bytes") -> ResponseSend:
    """A fetch response with these partitions' records."""
    parts = [Message(partition_index=n, records=one) for n, one in enumerate(records)]
    topics = [Message(topic="t", partitions=parts)]
    return response(RequestHeader(ApiKey.Fetch, 2, 7, "c", 0), Message(responses=topics))


def written(send: ResponseSend) -> ResponseSend:
    channel = BytesIO()
    while not send.completed:
        send.write_to(channel)
    return send


def counted(send: ResponseSend) -> tuple[bool, tuple[int, int, int]]:
    """Whether any records got another codec. And the counts of translated requests, of converted
    records and of converted bytes."""
    census = ClientCensus()
    key = census.count(KEY, 1.0, translated=False)
    is_recoded = count(written(send), census, key)
    ((_, use),) = list(census)
    return is_recoded, (use.translated, use.records_converted, use.bytes_converted)


def test_records_and_sent_bytes_of_all_conversions_are_counted() -> None:
    """The formats have other sizes, and a batch has another number of records than there are
    batches."""
    alone, first, second = (
        converted(batch(0, 1, 2), batch(3)),
        converted(batch(4, 5)),
        converted(batch(6), batch(7, 8, 9, 10, 11)),
    )
    sent = alone.size + first.size + second.size
    assert counted(fetched(alone, b"", JoinedSend([first, second]))) == (False, (0, 12, sent))


def test_responses_with_another_codec_count_as_translated_and_with_their_bytes() -> None:
    alone, first, second = recoded(0), recoded(1, 2, 3), recoded(4, 5)
    sent = alone.size + first.size + second.size
    assert counted(fetched(JoinedSend([first, second]), alone)) == (True, (1, 0, sent))


def test_both_kinds_in_one_response_are_counted() -> None:
    down, other = converted(batch(0, 1)), recoded(2)
    assert counted(fetched(down, other)) == (True, (1, 2, down.size + other.size))


def test_records_that_are_sent_as_they_are_count_nothing(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(batch(0, 1))
    with FileRecords.open(tmp_path / "log") as log:
        assert counted(fetched(batch(0, 1), log.to_send())) == (False, (0, 0, 0))


def test_records_that_are_in_memory_are_written_without_a_thread() -> None:
    small = converted(batch(0, 1))
    assert not small.converts
    assert not small.completed
    assert not converts(fetched())
    assert not converts(fetched(batch(0, 1)))
    assert not converts(fetched(small, JoinedSend([converted(batch(2)), converted(batch(3))])))


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("kind", ["converted", "recoded", "file"])
@pytest.mark.parametrize("is_joined", [False, True])
def test_a_part_that_is_yet_to_be_made_or_read_needs_a_thread(
    tmp_path: Path, before: int, kind: str, is_joined: bool
) -> None:
    """It may be anywhere in the response: other parts may be in memory."""
    (tmp_path / "log").write_bytes(batch(0, 1))
    with FileRecords.open(tmp_path / "log") as log:
        part: Send
        match kind:
            case "converted":
                part = converted(batch(*range(10), size=LARGE))
                assert part.converts
            case "recoded":
                part = recoded(0, 1)
            case _:
                part = log.to_send()
        parts = [*(converted(batch(0)) for _ in range(before)), part, converted(batch(1))]
        assert converts(fetched(JoinedSend(parts)) if is_joined else fetched(*parts))
