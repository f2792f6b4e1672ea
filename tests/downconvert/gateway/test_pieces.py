"""A response in pieces: all of it, in order, and no piece is held once it was handed on."""

import tracemalloc
from io import BytesIO

from downconvert import LazyDownConvertRecords
from downconvert.broker.wire.requests import RequestHeader
from downconvert.broker.wire.responses import ResponseSend, response
from downconvert.broker.wire.schemas import ApiKey, Message
from downconvert.gateway.pieces import pieces
from downconvert.gateway.streams import PIECE_SIZE
from records import MemoryRecords
from tests.downconvert.storage.logs import batch


def answer(batches: int = 6) -> ResponseSend:
    """About 90 KB a batch."""
    ten = (range(10 * n, 10 * n + 10) for n in range(batches))
    log = MemoryRecords(b"".join(batch(*offsets, size=9000) for offsets in ten))
    send = LazyDownConvertRecords(log, 1).to_send()
    partition = Message(partition_index=0, records=send, aborted_transactions=None)
    body = Message(responses=[Message(topic="t", partitions=[partition])])
    return response(RequestHeader(ApiKey.Fetch, 3, 1, None, 0), body)


def test_pieces_are_the_whole_response() -> None:
    whole = BytesIO()
    send = answer()
    while not send.completed:
        send.write_to(whole)
    found = [bytes(piece) for piece in pieces(answer())]
    assert b"".join(found) == whole.getvalue()
    assert len(found) > 1
    assert {len(piece) for piece in found[:-1]} == {PIECE_SIZE}


def test_a_piece_that_was_handed_on_is_not_held() -> None:
    send = answer(batches=40)
    tracemalloc.start()
    try:
        count = sum(1 for _ in pieces(send))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count > 50
    assert peak < 5 * PIECE_SIZE
