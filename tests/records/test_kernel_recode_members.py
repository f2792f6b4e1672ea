"""`recode` takes the members of gzip data as the decoder of a stream does."""

from types import ModuleType

import pytest

from records.codecs import compress, decompress
from records.errors import CorruptRecordsError
from records.formats import V1, V2, Codec
from records.kernel import Recodes
from records.units import MiB

from .examples import batch, record
from .kernels import each_kernel

RECORDS = [record(delta, b"key", b"value %d" % delta * 9) for delta in (0, 1, 2, 5, 6)]


@each_kernel
@pytest.mark.parametrize("size", range(24))
@pytest.mark.parametrize("start", [b"\x1f\x8b\x08", b"\x1f\x8b\x09"])
def test_bytes_after_a_member_of_gzip_are_a_member_where_the_stream_takes_them_for_one(
    kernel: ModuleType, start: bytes, size: int
) -> None:
    data = compress(Codec.GZIP, b"".join(RECORDS), magic=V2, compression_level="kafka")
    data += start.ljust(size, b"\0")[:size]
    entry = batch(compressed=data, attributes=Codec.GZIP, records_count=len(RECORDS))
    transcoder = kernel.Transcoder(V1, 0, 0, False, Recodes(b"", True, True, True, MiB, MiB))
    is_member = size > 18 and start.endswith(b"\x08")
    made = transcoder.recode(entry, 0, len(entry), Codec.SNAPPY)
    assert (made is None) == is_member
    if is_member:
        with pytest.raises(CorruptRecordsError, match="gzip data"):
            decompress(Codec.GZIP, data, limit=MiB, magic=V2)
    else:
        assert decompress(Codec.GZIP, data, limit=MiB, magic=V2) == b"".join(RECORDS)
