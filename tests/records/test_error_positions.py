"""An error has its position in the whole file, whatever range of it is read, and by whatever
reader.

The same bytes at the beginning of a file and behind others have the same errors, so far apart.

Not here: which damage is found where (test_kernel_damage.py, batches/test_reader.py)."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from records import BatchHeader, CorruptRecordsError, FileRecords, MemoryRecords, Records, read
from records.batches.compressed import CompressedBytes
from records.batches.reader import read_batch, read_rows
from records.checksum import verifying
from records.codecs import compress
from records.files.source import TRUNCATED
from records.formats import BATCH_HEADER_SIZE, V0, V1, V2, Codec
from tests.damage import spliced

from .examples import batch, message, record, wrapper

BEFORE: Final = 1000  # bytes of other records
RECORDS: Final = [record(n, b"key", b"v" * 40) for n in range(3)]
LZ4: Final = compress(Codec.LZ4, b"".join(RECORDS), magic=V2, compression_level="fast")
LOG: Final = (
    message(V0, 1)
    + batch(*RECORDS, base_offset=2)
    + batch(compressed=LZ4, records_count=3, attributes=Codec.LZ4, base_offset=5)
    + wrapper(V1, 9, message(V1, 0) + message(V1, 1))
    + wrapper(V0, 11, message(V0, 10) + message(V0, 11))
    + message(V1, 12)
)
Headers = Sequence[BatchHeader]


def decompressed(records: Records, headers: Headers) -> Iterator[None]:
    for header in headers:
        if header.codec:
            stream = CompressedBytes.of(records, header).open(memoryview(bytearray(64)))
            while stream.read_into(memoryview(bytearray(64))):
                yield


READERS: Final[dict[str, Callable[[Records, Headers], Any]]] = {
    "batches": lambda records, _: records.batches(),
    "read": lambda records, _: read(records),
    "read without checksums": lambda records, _: read(records, verify=False),
    "decompress": decompressed,
}
OF_EACH: Final[dict[str, Callable[[Records, BatchHeader], Any]]] = {
    "read_batch": read_batch,
    "read_batch without checksums": lambda *of: read_batch(*of, verify=False),
    "read_rows": lambda *of: read_rows(*of) if of[1].magic == V2 else (),
    "verify a checksum": verifying,
}


def errors(records: Records, headers: Headers) -> list[tuple[str, str, int, int | None]]:
    """The errors of all readers, with positions in the range."""
    calls = [(name, call, (records, headers)) for name, call in READERS.items()]
    each: list[Any] = [
        (name, call, (records, header)) for name, call in OF_EACH.items() for header in headers
    ]
    found = []
    for name, call, arguments in calls + each:
        try:
            list(call(*arguments))
        except CorruptRecordsError as error:
            found.append((name, error.reason, error.position - records.origin, error.inside))
    return found


def in_memory(log: bytes) -> MemoryRecords:
    return MemoryRecords(bytes(BEFORE) + log).slice(BEFORE, len(log))


def test_damage_in_a_slice_has_its_position_in_the_buffer() -> None:
    headers = list(MemoryRecords(LOG).batches())
    reasons = set()
    for at in range(0, len(LOG), 3):
        for byte in {0, 0x7F, LOG[at] ^ 1} - {LOG[at]}:
            log = spliced(LOG, at, bytes([byte]), drop=1)
            found = errors(MemoryRecords(log), headers)
            assert errors(in_memory(log), headers) == found, at
            reasons |= {reason for _, reason, _, _ in found}
    assert len(reasons) >= 15


def test_an_entry_that_memory_does_not_hold_ends_where_the_memory_does() -> None:
    """No position in compressed data can be found, so the entry's is that of its error."""
    for header in MemoryRecords(LOG).batches():
        names = ["verify a checksum", *(["read_rows"] if header.magic == V2 else [])]
        for size in range(header.position + BATCH_HEADER_SIZE, header.position + header.size):
            for name in names:
                with pytest.raises(CorruptRecordsError, match=TRUNCATED) as caught:
                    list(OF_EACH[name](in_memory(LOG[:size]), header))
                is_inside = name == "read_rows" and header.codec
                assert caught.value.position == BEFORE + (header.position if is_inside else size)


@pytest.mark.parametrize("repeated", [1, 40])  # 40: more than a window of headers
def test_truncation_in_a_slice_has_its_position_in_the_file(tmp_path: Path, repeated: int) -> None:
    log = LOG * repeated
    paths = tmp_path / "alone", tmp_path / "behind others"
    for path, before in zip(paths, (0, BEFORE), strict=True):
        path.write_bytes(bytes(before) + log)
    with FileRecords.open(paths[0]) as alone, FileRecords.open(paths[1]) as whole:
        behind = whole.slice(BEFORE, len(log))
        headers = list(alone.batches())[-6:]
        readers = set()
        for size in range(len(log) - 1, len(log) - len(LOG), -23):
            os.truncate(paths[0], size)
            os.truncate(paths[1], BEFORE + size)
            found = errors(alone, headers)
            assert errors(behind, headers) == found, size
            readers |= {name for name, reason, _, _ in found if reason == TRUNCATED}
        assert readers == {*READERS, *OF_EACH}
