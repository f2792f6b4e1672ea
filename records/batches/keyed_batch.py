"""Builds a v2 batch, and its header, from keys and values that share one timestamp.

A coordinator stores the changes of a request in such a batch, which usually has one record. `build`
makes the same bytes from any records, but costs several times as much.

Not here: batches with a codec, headers or different timestamps (builder.py)."""

from collections.abc import Iterable
from typing import Final

from records import backend
from records.batch import BatchHeader
from records.formats import Codec

NO_CODEC: Final = Codec.NONE


def keyed_batch(
    pairs: Iterable[tuple[bytes | None, bytes | None]],
    time: int,
    producer: tuple[int, int] | None = None,
) -> tuple[bytearray, BatchHeader]:
    """The batch, with offsets from 0 on, and its header.

    `time` in milliseconds. `producer`: the id and epoch of the producer of the transaction.
    ValueError: there are no pairs, or they are larger than a batch can be."""
    data, fields = backend.keyed_batch(pairs, time, producer)
    return data, tuple.__new__(BatchHeader, (*fields, NO_CODEC))  # as BatchHeader.parse does
