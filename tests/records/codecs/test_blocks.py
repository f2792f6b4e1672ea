"""An encoder of blocks cuts at the same places however it is written to."""

import pytest

from records.codecs.blocks import BlockEncoder
from records.kernel import Buffer

from .streams import between, of

DATA = bytes(range(256)) * 4


def bracketed(data: Buffer) -> tuple[bytes, Buffer, bytes]:
    return b"<", bytes(data), b">"


def expected(size: int) -> bytes:
    data = DATA[:size]
    return b"head" + b"".join(b"<%b>" % data[at : at + 100] for at in range(0, size, 100)) + b"end"


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 200, 201, 1000])
def test_blocks_are_the_same_however_the_data_is_written(size: int) -> None:
    for sizes in of(1), of(50), of(99), of(100), of(101), of(1000), between(0, 250, seed=size):
        encoder = BlockEncoder(b"head", 100, bracketed, b"end")
        written, at = b"", 0
        while at < size:
            part = DATA[at : min(size, at + next(sizes))]
            written += encoder.write(part)
            at += len(part)
        assert written + encoder.finish() == expected(size)
        assert BlockEncoder(b"head", 100, bracketed, b"end").all(DATA[:size]) == expected(size)


def test_written_buffers_may_be_reused() -> None:
    encoder = BlockEncoder(b"head", 100, lambda block: (block,), b"end")
    buffer = bytearray(DATA[:250])
    written = encoder.write(buffer)
    buffer[:] = bytes(250)
    written += encoder.write(DATA[250:350])
    assert written + encoder.finish() == b"head" + DATA[:350] + b"end"
