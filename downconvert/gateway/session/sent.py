"""Adds the conversions of a sent response to the census."""

from collections.abc import Iterator
from typing import Any

from downconvert import LazyDownConvertSend
from downconvert.conversion.recode import LazyRecodedSend
from downconvert.protocol.joined_send import JoinedSend
from downconvert.protocol.responses import ResponseSend

from .census import ClientCensus, ClientKey


def count(send: ResponseSend, census: ClientCensus, key: ClientKey) -> bool:
    """Counts records and bytes that were converted or got another codec. Returns whether any got
    another codec."""
    parts = list(_parts(send))
    recoded = [part.size for part in parts if isinstance(part, LazyRecodedSend)]
    if recoded:
        census.recoded(key, sum(recoded))
    stats = [part.stats for part in parts if isinstance(part, LazyDownConvertSend)]
    if stats:
        records = sum(one.records_converted for one in stats)
        census.converted(key, records, sum(one.bytes_out for one in stats))
    return bool(recoded)


def converts(send: ResponseSend) -> bool:
    """Whether writing it may convert or read a file. That must not happen in the event loop."""
    parts = _parts(send)
    return any(not isinstance(part, LazyDownConvertSend) or part.converts for part in parts)


def _parts(send: ResponseSend) -> Iterator[Any]:
    for part in send.records:
        if isinstance(part, JoinedSend):
            yield from part.parts
        else:
            yield part
