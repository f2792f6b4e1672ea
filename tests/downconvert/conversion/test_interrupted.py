"""A signal that interrupts a write is no error of the channel."""

import os
import signal
import threading

from downconvert import LazyDownConvertRecords
from records import MemoryRecords, Record, build

from .channels import sent

VALUE = b"v" * 1000


def test_a_write_that_a_signal_interrupts_is_continued_by_the_next_one() -> None:
    """A full pipe blocks the write, and is only read after the signal."""
    log = MemoryRecords(build([Record(n, 0, value=VALUE) for n in range(200)], magic=2))
    lazy = LazyDownConvertRecords(log, 1)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    filled = 0
    while True:
        try:
            filled += os.write(writer, bytes(4096))
        except BlockingIOError:
            break
    os.set_blocking(writer, True)
    is_interrupted, got = threading.Event(), bytearray()

    def read() -> None:
        is_interrupted.wait()
        while len(got) < filled + lazy.size and (piece := os.read(reader, 65_536)):
            got.extend(piece)

    thread = threading.Thread(target=read)
    thread.start()
    before = signal.signal(signal.SIGALRM, lambda *_: is_interrupted.set())
    signal.setitimer(signal.ITIMER_REAL, 0.03)
    try:
        with os.fdopen(writer, "wb", buffering=0) as pipe:
            sent_to(lazy, pipe)
    finally:
        is_interrupted.set()
        thread.join()
        os.close(reader)
        signal.signal(signal.SIGALRM, before)
    assert bytes(got[filled:]) == sent(lazy.to_send())


def sent_to(lazy: LazyDownConvertRecords, pipe: object) -> None:
    send = lazy.to_send()
    while not send.completed:
        send.write_to(pipe)
