"""This project's conversion, called from Python as by an embedder: lazily, to a descriptor or into
an object."""

import os
import zlib
from collections.abc import Sequence
from dataclasses import replace
from io import FileIO
from pathlib import Path
from time import perf_counter, process_time
from typing import TypeAlias

from bench.measuring.rounds import Fetch, Round
from downconvert import ConversionPolicy, LazyDownConvertRecords
from records import FileRecords


class Discard:
    """A channel that accepts everything at once, and keeps and counts nothing."""

    def write(self, data: memoryview) -> int:
        return len(data)


class Checksum:
    """A channel that keeps a checksum."""

    def __init__(self) -> None:
        self.crc = 0

    def write(self, data: memoryview) -> int:
        self.crc = zlib.crc32(data, self.crc)
        return len(data)


Channel: TypeAlias = Discard | Checksum | FileIO


class Ours:
    """Converts the fetches of one segment under one policy.

    `in_turns`: one call makes a response and writes it to the descriptor of /dev/null, chunk after
    chunk, like a server with a writable socket. Otherwise each chunk takes a call, and a write to
    an object in Python."""

    def __init__(
        self,
        to_magic: int,
        segment: Path,
        fetches: Sequence[Fetch],
        policy: ConversionPolicy,
        *,
        in_turns: bool = False,
    ) -> None:
        self._in_turns = in_turns
        self._to_magic = to_magic
        self._log = FileRecords.open(segment)
        self._fetches = fetches
        self._policy = policy

    def round(self) -> Round:
        if not self._in_turns:
            return self._round(Discard())
        with Path(os.devnull).open("wb", buffering=0) as nowhere:
            return self._round(nowhere)

    def _round(self, channel: Channel) -> Round:
        cpu, started = process_time(), perf_counter()
        done = self._convert(channel)
        seconds, cpu_seconds = perf_counter() - started, process_time() - cpu
        return replace(done, seconds=seconds, cpu_seconds=cpu_seconds)

    def checked_round(self) -> Round:
        """A round with a CRC of all sent bytes."""
        channel = Checksum()
        started = perf_counter()
        done = self._convert(channel)
        seconds = perf_counter() - started
        return replace(done, seconds=seconds, cpu_seconds=seconds, crc=channel.crc)

    def _convert(self, channel: Channel) -> Round:
        """A round, without its time."""
        records = sent = 0
        waited = 0.0
        for position, size, first_offset in self._fetches:
            begun = perf_counter()
            lazy = LazyDownConvertRecords(
                self._log.slice(position, size), self._to_magic, first_offset, self._policy
            )
            send = lazy.to_send()
            if self._in_turns:
                while not send.completed:
                    send.write_to(channel, send.size)
            else:
                while not (send.completed or send.write_to(channel)):
                    pass
                waited += perf_counter() - begun
                while not send.completed:
                    send.write_to(channel)
            done = send.stats
            records += done.records_converted
            sent += done.bytes_out
        first_byte = waited / max(len(self._fetches), 1)
        return Round(records, sent, 0.0, 0.0, first_byte=first_byte)
