"""Converts bombs of old producers. As a program, it prints the bytes by which its process grew.

    python -m tests.downconvert.gateway.bombs THREADS RECORDS VALUE_SIZE

Message sets of v1, of so many records of so many bytes, that expand to far more than they are."""

import resource
import sys
from struct import Struct
from threading import Thread
from typing import Final
from zlib import crc32

from downconvert.gateway.session.producing import TAKEN
from downconvert.protocol.errors import ApiError
from downconvert.serving.appending import prepare
from records import Codec, Record, build
from records.batches.wrapper import build_wrapper
from records.codecs import open_encoder
from records.formats import V1

HEAD: Final = Struct(">qiI")  # offset, size, checksum
REST: Final = Struct(">bbqii")  # magic, attributes, timestamp, sizes of key and value
PIECE: Final = bytes(65536)


def bomb(records: int, value_size: int) -> bytes:
    """A compressed message."""
    encoder = open_encoder(Codec.GZIP, magic=V1, compression_level="kafka")
    rest = REST.pack(V1, 0, 1000, -1, value_size)
    pieces = [len(PIECE)] * (value_size // len(PIECE)) + [value_size % len(PIECE)]
    checksum = crc32(rest)
    for size in pieces:
        checksum = crc32(PIECE[:size], checksum)
    body = []
    for offset in range(records):
        body.append(encoder.write(HEAD.pack(offset, 4 + len(rest) + value_size, checksum) + rest))
        body += [encoder.write(PIECE[:size]) for size in pieces]
    body.append(encoder.finish())
    offset = records - 1
    whole = b"".join(body)
    return bytes(
        build_wrapper(whole, magic=V1, offset=offset, attributes=Codec.GZIP, timestamp=1000)
    )


def refused(data: bytes) -> bool:
    """Whether the gateway takes none of it."""
    try:
        prepare(memoryview(data), TAKEN, 2000)
    except ApiError:
        return True
    return False


def main(threads: int, records: int, value_size: int) -> None:
    """Prints bytes, and whether it was refused."""
    data = bomb(records, value_size)
    refused(build([Record(0, 1000, value=b"x")], magic=1, codec=Codec.GZIP))  # loads what it needs
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes: list[bool] = []
    running = [Thread(target=lambda: outcomes.append(refused(data))) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(grown * 1024, all(outcomes), any(outcomes))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
