"""The bytes of a conversion are the same in every thread."""

from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Thread

from downconvert import ConversionPolicy, eager
from records import Codec, MemoryRecords, Record, build
from records.backend import NAME, NATIVE

THREADS = 200 if NAME == NATIVE else 20  # the reference takes its time


def test_small_messages_are_compressed_to_the_same_bytes_in_every_thread() -> None:
    """isal compresses data of less than 4 KiB to something else in one of thirty threads."""
    dice = Random(9)
    batches = [
        build(
            [Record(offset=n, timestamp=0, key=dice.choice((None, b"key")), value=value)],
            magic=2,
            codec=Codec.ZSTD,
        )
        for n, value in enumerate(
            dice.choice((bytes, dice.randbytes))(dice.randrange(1, 300)) for _ in range(300)
        )
    ]
    log, policy = MemoryRecords(b"".join(batches)), ConversionPolicy(recode={"zstd": "gzip"})
    expected = eager(log, 0, 0, policy)
    found = []
    for _ in range(THREADS):
        thread = Thread(target=lambda: found.append(eager(log, 0, 0, policy)))
        thread.start()
        thread.join()
    assert len(found) == THREADS
    assert all(each == expected for each in found)


def test_threads_that_convert_at_a_time_make_the_same_bytes() -> None:
    dice = Random(3)
    records = [Record(n, n, value=dice.randbytes(50).ljust(100, b"-")) for n in range(2_000)]
    codecs = [Codec.GZIP, Codec.LZ4, Codec.SNAPPY, Codec.ZSTD]
    log = MemoryRecords(
        b"".join(
            build(records[at : at + 500], magic=2, codec=codec)
            for at, codec in zip(range(0, 2_000, 500), codecs, strict=True)
        )
    )
    expected = eager(log, 1)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: eager(log, 1), range(THREADS // 4)))
    assert all(each == expected for each in found)
