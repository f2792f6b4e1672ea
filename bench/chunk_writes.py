"""How much more does a response cost if each call writes one chunk, and how much of that is Python?

The same response goes to a file in memory and to a socket, with one call a chunk and with a budget
for all of it: by the kernel's calls alone, and by `write_to`. The two ways take turns. Results are
medians of the ratios of CPU times of the calling thread. The kernel's ratio cannot be undercut: it
is that of the system calls, of which each chunk then needs its own.

    python -m bench.chunk_writes --rounds 40

Not here: the time of planning (breakdown.py)."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any, Final

import click

from downconvert import ConversionPolicy, LazyDownConvertRecords
from records import FileRecords
from records.backend import Transcoder
from records.formats import V1
from records.units import MiB

from .measuring.segments import CACHE, SHAPES, segment

CHUNK_SIZE: Final = ConversionPolicy().chunk_size
RESPONSE_SIZE: Final = MiB
ALL: Final = 2 * MiB  # a budget for the whole response
ROOM: Final = 1 << 30
DRAIN: Final = """
import socket, sys
reader, buffer = socket.socket(fileno=int(sys.argv[1])), bytearray(1 << 20)
while reader.recv_into(buffer):
    pass
"""


@contextmanager
def file() -> Iterator[Any]:
    with open(os.memfd_create("response"), "wb", buffering=0) as channel:  # noqa: PTH123
        yield channel


@contextmanager
def drained_socket() -> Iterator[Any]:
    """A socket with room for a response, whose reader is another process."""
    channel, reader = socket.socketpair()
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, RESPONSE_SIZE)
    number = reader.fileno()
    with subprocess.Popen([sys.executable, "-c", DRAIN, str(number)], pass_fds=[number]):
        reader.close()
        with channel:
            yield channel


CHANNELS: Final = {"file": file, "socket": drained_socket}


def by_kernel(log: FileRecords, channel: Any, budget: int | None) -> Callable[[], None]:
    """Converts and writes by calls of the kernel alone."""
    transcoder = Transcoder(V1, 0, 1, False)
    source, descriptor = log.fileno(), channel.fileno()
    limits = CHUNK_SIZE, descriptor, isinstance(channel, socket.socket), ROOM, budget or 1

    def write() -> None:
        position = 0
        while position < log.size:
            consumed, *_ = transcoder.advance(source, position, log.size, *limits)
            position += consumed

    return write


def by_send(log: FileRecords, channel: Any, budget: int | None) -> Callable[[], None]:
    send = LazyDownConvertRecords(log, V1).to_send()

    def write() -> None:
        while not send.completed:
            send.write_to(channel, budget)

    return write


WAYS: Final = {"the kernel alone": by_kernel, "write_to": by_send}


def seconds(write: Callable[[], None], channel: Any) -> float:
    if not isinstance(channel, socket.socket):
        channel.seek(0)
    started = thread_time()
    write()
    return thread_time() - started


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--rounds", default=40, show_default=True)
@click.option("--smoke", is_flag=True, help="A few rounds: that it runs.")
@click.option("--segments", "directory", default=CACHE, type=click.Path(path_type=Path))
def main(rounds: int, smoke: bool, directory: Path) -> None:
    rounds = 2 if smoke else rounds
    for shape in "none-100", "none-1000":
        path = segment(SHAPES[shape], size=RESPONSE_SIZE, directory=directory)
        for name, open_channel in CHANNELS.items():
            with FileRecords.open(path) as log, open_channel() as channel:
                for way_name, way in WAYS.items():
                    ratios = []
                    for _ in range(rounds):
                        single = seconds(way(log, channel, None), channel)
                        ratios.append(single / seconds(way(log, channel, ALL), channel))
                    click.echo(f"{shape:10} {name:7} {way_name:17} {median(ratios):.2f}")


if __name__ == "__main__":
    main()
