"""A batch read step by step gives the same records, and the same error at the same position,
whatever the size of its windows.

Not here: many batches at once (test_reader.py), both kernels (../test_reader_twins.py)."""

from typing import Final

import pytest

from records import CorruptRecordsError, MemoryRecords, Record
from records.batches import batch_reader
from records.batches.batch_reader import BatchReader, body_size_max
from records.files.window import WINDOW_SIZE
from records.formats import LOG_APPEND_TIME, V0, V1
from records.units import KiB, MiB
from tests.records.examples import GAPS, batch, damaged, message, record, wrapper
from tests.records.reading import LOG_APPEND, ORIGIN, gzipped

RECORDS: Final = (
    record(0, headers=[(b"h", b"x"), (b"h", None)]),
    record(1, None, b"v" * 9, timestamp_delta=-300),
    record(3, b"", None),
)
BODY: Final = b"".join(RECORDS)
WRONG: Final = damaged(message(V1, 2), at=30, bytes=b"!", checksum="wrong")
INSIDE: Final = message(V1, 1, timestamp=7) + message(V0, 2, None) + message(V1, 4, b"", b"v" * 9)
SIZES: Final = (*range(1, 130), 32 * KiB)  # of windows: from a byte to more than all

EXAMPLES: Final = {
    "a batch": batch(*RECORDS, base_offset=5, base_sequence=2**31 - 2),
    "gaps": GAPS,
    "a compressed batch": gzipped(*RECORDS, base_offset=5, last_offset_delta=3),
    "log append time": gzipped(*RECORDS, attributes=1 | LOG_APPEND_TIME),
    "a byte too many": batch(BODY + b"\0", records_count=3),
    "a compressed byte too many": gzipped(BODY + b"\0", records_count=3),
    "a record too many": batch(*RECORDS, records_count=2),
    "a compressed record too many": gzipped(*RECORDS, records_count=2),
    "a record too few": batch(*RECORDS, records_count=4),
    "a compressed record too few": gzipped(*RECORDS, records_count=4),
    "a record cut": gzipped(BODY[:-1], records_count=3),
    "a record that is damaged": gzipped(BODY[:-1] + b"\x01", records_count=3),
    "messages in a v0 message": wrapper(V0, 7, message(V0, 4) + message(V0, 7, None, b"v" * 9)),
    "messages in a v1 message": wrapper(V1, 9, INSIDE),
    "messages at offset 0": wrapper(V1, 0, INSIDE),
    "messages under log append time": wrapper(V1, 9, INSIDE, attributes=LOG_APPEND),
    "messages, the last one cut": wrapper(V1, 9, INSIDE + message(V1, 9)[:-1]),
    "messages, one with a wrong checksum": wrapper(V1, 9, message(V1, 0) + WRONG),
    "messages, the first with a wrong checksum": wrapper(V1, 9, WRONG + message(V1, 3)),
    "messages, one damaged": wrapper(V1, 9, INSIDE + bytes(30)),
    "messages below their last": wrapper(V1, 3, INSIDE),
    "no messages": wrapper(V1, 3, b"\0" * 11),
}


def read(
    entry: bytes, *, at_once: bool, window_size: int = WINDOW_SIZE
) -> tuple[list[Record], tuple[str, int, int | None] | None]:
    """The records of an entry, and the error after them: reason and both positions."""
    log = MemoryRecords(bytes(ORIGIN) + entry).slice(ORIGIN, len(entry))
    (header,) = log.batches()
    found: list[Record] = []
    try:
        held = memoryview(entry) if at_once else None
        for some in BatchReader(log, True, None, window_size).read(header, held):
            found += some
    except CorruptRecordsError as error:
        return found, (error.reason, error.position, error.inside)
    return found, None


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_size_of_windows_changes_neither_records_nor_errors(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EXAMPLES[name]
    expected = read(entry, at_once=True)
    for size in SIZES:
        monkeypatch.setattr(batch_reader, "WINDOW_SIZE", size)  # what the number of rows depends on
        assert read(entry, at_once=False, window_size=size) == expected, size


@pytest.mark.parametrize(
    ("name", "count", "error"),
    [
        ("a byte too many", 3, ("bytes left after the last record", 61 + len(BODY), None)),
        ("a compressed byte too many", 3, ("bytes left after the last record", 0, len(BODY))),
        ("a record cut", 2, ("record runs past its batch", 0, len(BODY) - len(RECORDS[2]))),
        ("messages, one with a wrong checksum", 1, ("checksum does not match", 0, 36)),
        ("messages, the first with a wrong checksum", 0, ("checksum does not match", 0, 0)),
        ("messages, one damaged", 0, ("entry is smaller than a message header", 0, len(INSIDE))),
    ],
)
def test_an_error_has_the_position_of_the_damaged_entry(
    name: str, count: int, error: tuple[str, int, int | None]
) -> None:
    records, found = read(EXAMPLES[name], at_once=True)
    reason, position, inside = error
    assert (len(records), found) == (count, (reason, ORIGIN + position, inside))


@pytest.mark.parametrize(
    ("record_size_max", "size"),
    [(None, MiB), (0, 32 * KiB), (32 * KiB + 1, 32 * KiB + 1), (MiB - 1, MiB - 1), (2 * MiB, MiB)],
)
def test_a_body_of_a_window_is_decompressed_at_once_whatever_the_limit(
    record_size_max: int | None, size: int
) -> None:
    assert body_size_max(record_size_max) == size
