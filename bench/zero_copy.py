"""How close does a fetch that needs no conversion come to a bare sendfile?

The same ranges of a log are sent through a TCP socket to a process that discards them, in four
ways: by a bare loop of `os.sendfile`; by our sends of known ranges; by whole fetches, which find
their range by its offset; by reading into a buffer and sending that. The ways take turns, and
ratios are within a turn. CPU time is that of the sending process.

    python -m bench.zero_copy --size 1GiB

Not here: the send (records/files/zero_copy.py), finding the range (downconvert/storage/log.py)."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Final

import click

from downconvert.storage import Log, LogConfig
from records import FileRecords
from records.batches.builder import build
from records.formats import V2, TimestampType
from records.record import Record
from records.units import KiB, MiB, parse_size

RECORD_SIZE: Final = 1000
BATCH_RECORDS: Final = 16
ROUNDS: Final = 9
FETCH_SIZE: Final = MiB  # max.partition.fetch.bytes of a consumer
BUFFER_SIZE: Final = 64 * KiB

# Reads everything, and prints the number of bytes at the end.
DRAIN: Final = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
buffer, taken = bytearray(1 << 20), 0
while size := connection.recv_into(buffer):
    taken += size
print(taken, flush=True)
"""

Fetch = tuple[int, FileRecords]  # an offset, and the records of a fetch from there
Way = Callable[[socket.socket, Log, Sequence[Fetch]], None]


@dataclass(frozen=True, slots=True)
class Turn:
    """One way through all of the log."""

    seconds: float
    cpu_seconds: float
    size: int

    @property
    def gigabytes_a_second(self) -> float:
        return self.size / self.seconds / 1e9

    @property
    def cpu_seconds_a_gigabyte(self) -> float:
        return self.cpu_seconds / self.size * 1e9


def bare_sendfile(channel: socket.socket, _: Log, fetches: Sequence[Fetch]) -> None:
    for _offset, records in fetches:
        at, end = records.origin, records.origin + records.size
        while at < end:
            at += os.sendfile(channel.fileno(), records.fileno(), at, end - at)


def our_send(channel: socket.socket, _: Log, fetches: Sequence[Fetch]) -> None:
    for _offset, records in fetches:
        send = records.to_send()
        while not send.completed:
            send.write_to(channel)


def whole_fetch(channel: socket.socket, log: Log, fetches: Sequence[Fetch]) -> None:
    for offset, _ in fetches:
        send = log.read(offset, FETCH_SIZE).to_send()
        while not send.completed:
            send.write_to(channel)


def read_and_send(channel: socket.socket, _: Log, fetches: Sequence[Fetch]) -> None:
    buffer = memoryview(bytearray(BUFFER_SIZE))
    for _offset, records in fetches:
        at = 0
        while read := records.read_into(buffer, at):
            channel.sendall(buffer[:read])
            at += read


WAYS: Final[dict[str, Way]] = {
    "bare sendfile": bare_sendfile,
    "our send": our_send,
    "whole fetch": whole_fetch,
    "read and send": read_and_send,
}


def write_log(directory: Path, size: int) -> Path:
    """A log of `size` bytes, in batches of 16 records of 1,000 bytes."""
    path = directory / "topic-0"
    path.mkdir()
    config = LogConfig(segment_bytes=256 * MiB)
    value = bytes(range(250)) * (RECORD_SIZE // 250)
    with Log.open(path, writable=True, config=config) as log:
        written = offset = 0
        while written < size:
            data = bytearray()
            for base in range(offset, offset + 64 * BATCH_RECORDS, BATCH_RECORDS):
                records = [
                    Record(at, at, TimestampType.CREATE, None, value)
                    for at in range(base, base + BATCH_RECORDS)
                ]
                data += build(records, magic=V2)
            offset = log.writer.append(data)
            written += len(data)
    return path


def plan(log: Log) -> list[Fetch]:
    """The fetches of a consumer that reads the whole log."""
    fetches = []
    offset, end = log.start_offset, log.end_offset
    while offset < end:
        records = log.read(offset, FETCH_SIZE)
        fetches.append((offset, records))
        *_, last = records.batches()
        offset = last.last_offset + 1
    return fetches


def turn(way: Way, log: Log, fetches: Sequence[Fetch]) -> Turn:
    """Sends everything. The time ends when the other side has received it."""
    size = sum(records.size for _, records in fetches)
    command = (sys.executable, "-c", DRAIN)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as drain:
        assert drain.stdout is not None
        port = int(drain.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as channel:
            started, cpu = perf_counter(), process_time()
            way(channel, log, fetches)
            channel.shutdown(socket.SHUT_WR)
            taken = int(drain.stdout.readline())
            seconds, cpu_seconds = perf_counter() - started, process_time() - cpu
    if taken != size:
        raise AssertionError(f"{way.__name__}: {taken} of {size} bytes arrived")
    return Turn(seconds, cpu_seconds, size)


def ratio(ours: Sequence[Turn], theirs: Sequence[Turn]) -> float:
    """The median of the ratios of turns that came one after the other."""
    rates = zip(ours, theirs, strict=True)
    return median(a.gigabytes_a_second / b.gigabytes_a_second for a, b in rates)


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--size", default="512MiB", show_default=True, help="Of the log.")
@click.option("--rounds", default=ROUNDS, show_default=True)
@click.option("--smoke", is_flag=True, help="A small log: does everything arrive?")
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="On the disk to measure.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="All turns.")
def main(
    size: str, rounds: int, smoke: bool, directory: Path | None, json_path: Path | None
) -> None:
    bytes_ = 8 * MiB if smoke else parse_size(size)
    rounds = 2 if smoke else rounds
    with tempfile.TemporaryDirectory(dir=directory) as place:
        path = write_log(Path(place), bytes_)
        with Log.open(path) as log:
            fetches = plan(log)
            turns: dict[str, list[Turn]] = {name: [] for name in WAYS}
            for number in range(rounds + 1):
                for name, way in WAYS.items():
                    done = turn(way, log, fetches)
                    if number:  # the first round brings the log into memory
                        turns[name].append(done)
    click.echo(f"{bytes_ // MiB} MiB in fetches of {FETCH_SIZE // MiB} MiB, {rounds} rounds")
    for name, done_turns in turns.items():
        rate = max(each.gigabytes_a_second for each in done_turns)
        cpu = median(each.cpu_seconds_a_gigabyte for each in done_turns)
        of_bare = ratio(done_turns, turns["bare sendfile"])
        click.echo(
            f"{name:14} {rate:5.2f} GB/s at best, {of_bare:6.1%} of a bare sendfile, "
            f"{cpu:.3f} s of CPU a GB"
        )
    if json_path is not None:
        found = {name: [asdict(each) for each in some] for name, some in turns.items()}
        json_path.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
