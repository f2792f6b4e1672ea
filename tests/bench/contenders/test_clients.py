"""The clients' record classes as converters."""

import zlib

import pytest

from bench.contenders.clients import CLIENTS, Client
from bench.measuring.rounds import fetches, records_in
from bench.measuring.segments import SHAPES, segment
from downconvert import eager
from records import Codec, FileRecords
from records.units import KiB


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("shape", ["none-100", "single-100", "mixed"])
@pytest.mark.parametrize("to_magic", [0, 1])
def test_clients_convert_uncompressed_records_to_the_same_bytes_as_we_do(
    name, shape, to_magic, tmp_path
):
    path = segment(SHAPES[shape], size=64 * KiB, directory=tmp_path)
    done = Client(name, to_magic, path, fetches(path, 20_000), Codec.NONE).round()
    with FileRecords.open(path) as log:
        ours = eager(log, to_magic)
    assert (done.size, done.crc) == (len(ours), zlib.crc32(ours))
    assert done.records == records_in(path)
