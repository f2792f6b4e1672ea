"""The sources of evidence: files, URLs and standard input, read once or followed as they grow.

Not here: the kind of evidence (doctor/kinds.py)."""

import os
import select
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from io import BytesIO
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Final
from urllib.request import urlopen

from downconvert.doctor.evidence import Seen
from downconvert.doctor.kinds import Evidence
from records.logged import shown
from records.units import KiB, MiB

from .failure import CommandError, reason

CHUNK: Final = 256 * KiB  # bytes
URL_SECONDS: Final = 10.0  # for a page
URL_SIZE_MAX: Final = 64 * MiB  # bytes of a page
STANDARD_INPUT: Final = "-"


class Source:
    """One source, and the requests found in it."""

    def __init__(self, name: str, file: BinaryIO, ports: Collection[int], *, follow: bool) -> None:
        self.name = name
        self.is_over = False
        self._file = file
        self._ports = ports
        self._follow = follow
        self._evidence = Evidence(ports, time.time())
        self._requests = 0

    @property
    def kind(self) -> str:
        return self._evidence.kind

    @property
    def is_unreadable(self) -> bool:
        """Whether it has problems and no request."""
        return not self._requests and bool(self._evidence.problems.counts)

    def problems(self) -> Iterator[str]:
        """The problems of reading it, a line each."""
        for what, count in self._evidence.problems.counts.items():
            yield f"{shown(self.name)}: {what}" + (f" ({count:,} times)" if count > 1 else "")

    def read(self) -> Iterator[Seen]:
        """The requests in the next chunk. OSError: it cannot be read."""
        if self._follow and not self._is_file() and not select.select([self._file], [], [], 0)[0]:
            return
        data = os.read(self._file.fileno(), CHUNK) if self._follow else self._file.read(CHUNK)
        if data:
            yield from self._count(self._evidence.feed(data))
        elif not self._follow or not self._is_file():
            self.is_over = True
        elif self._is_another():
            yield from self._count(self._evidence.end())
            self._evidence = Evidence(self._ports, time.time())
            self._file.close()
            self._file = Path(self.name).open("rb")

    def end(self) -> Iterator[Seen]:
        """The remaining requests at the end."""
        yield from self._count(self._evidence.end())

    def close(self) -> None:
        self._file.close()

    def _is_file(self) -> bool:
        return S_ISREG(os.fstat(self._file.fileno()).st_mode)

    def _is_another(self) -> bool:
        """Whether the log was rotated: the name belongs to another file, or the file was
        truncated."""
        here = os.fstat(self._file.fileno())
        if here.st_size < os.lseek(self._file.fileno(), 0, os.SEEK_CUR):
            return True
        try:
            there = os.stat(self.name)  # noqa: PTH116 - compared with fstat
        except FileNotFoundError:
            return False  # the next file does not exist yet
        return (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino)

    def _count(self, found: Iterator[Seen]) -> Iterator[Seen]:
        for one in found:
            self._requests += 1
            yield one


@contextmanager
def opened(names: Sequence[str], ports: Collection[int], *, follow: bool) -> Iterator[list[Source]]:
    """Opens all sources. CommandError: a URL does not answer. OSError: a file is missing."""
    with ExitStack() as stack:
        sources = []
        for name in names:
            if name.startswith(("http://", "https://")):
                if follow:
                    raise CommandError(f"{name}: only files and pipes can be followed")
                file: BinaryIO = BytesIO(_fetched(name))
            elif "://" in name:
                raise CommandError(f"{name}: only http:// and https:// are read")
            elif name == STANDARD_INPUT:
                file = sys.stdin.buffer
            elif Path(name).is_dir():
                raise CommandError(
                    f"{name}: is a directory; name request logs, captures or pages in it, such as "
                    f"{name.rstrip('/')}/kafka-request.log*"
                )
            else:
                file = Path(name).open("rb")
            source = Source(name, file, ports, follow=follow)
            sources.append(source)
            if name != STANDARD_INPUT:
                stack.callback(source.close)
        yield sources


def _fetched(url: str) -> bytes:
    try:
        with urlopen(url, timeout=URL_SECONDS) as response:
            data: bytes = response.read(URL_SIZE_MAX)
    except (OSError, ValueError, HTTPException) as error:  # URLError is an OSError
        raise CommandError(f"{url}: {reason(error)}") from None
    return data
