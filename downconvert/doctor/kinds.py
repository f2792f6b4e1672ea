"""Finds the kind of evidence from its first bytes."""

import re
import zlib
from collections.abc import Collection, Iterator
from typing import Any, Final

from records.units import KiB

from .capture import PORT, Capture
from .capture_file import PCAP_MAGIC, PCAPNG_MAGIC
from .evidence import Problems, Reader, Seen
from .gateway_rows import GatewayRows
from .metrics_page import MetricsPage
from .request_log import RequestLog

BEGINNING: Final = 4096  # bytes that are examined
CAPTURES: Final = {*PCAP_MAGIC, PCAPNG_MAGIC}
GZIP_MAGIC: Final = b"\x1f\x8b"
INFLATED_MAX: Final = 256 * KiB  # bytes at a time
_ROWS: Final = re.compile(rb"\s*\[\s*[{\]]")
_METRICS: Final = re.compile(rb"# |[a-zA-Z_:][\w:]*(\{[^{}]*\})? [-+]?[\d.NI]")


class Evidence:
    """A Reader of any kind of evidence, compressed with gzip or not."""

    def __init__(self, ports: Collection[int] = (PORT,), when: float | None = None) -> None:
        """`ports`: the brokers' ports in captures. `when`: the time at which a page without times
        was read."""
        self.problems = Problems()
        self.reader: Reader | None = None  # None until the first bytes are examined
        self._ports, self._when = ports, when
        self._beginning = bytearray()
        self._inflate: Any = None  # a decompressor, for gzip
        self._is_in_member = False  # of a gzip file
        self._is_first = True
        self._is_over = False

    @property
    def kind(self) -> str:
        """The kind, in words."""
        return "nothing" if self.reader is None else _WORDS[type(self.reader)]

    def feed(self, data: bytes) -> Iterator[Seen]:
        if self._is_over:
            return
        if self._is_first:
            self._beginning += data
            if len(self._beginning) < len(GZIP_MAGIC):
                return
            data, self._is_first = bytes(self._beginning), False
            self._beginning.clear()
            if data.startswith(GZIP_MAGIC):
                self._begin_member()
        if self._inflate is None:
            yield from self._feed(data)
            return
        while data:
            if not self._is_in_member:  # zeros may follow a member, or another member
                data = data.lstrip(b"\0")
                self._is_in_member = bool(data)
                continue
            try:
                inflated = self._inflate.decompress(data, INFLATED_MAX)
            except zlib.error:
                self.problems.add("the gzip file is damaged: nothing after it can be read")
                self._is_over = True
                return
            yield from self._feed(inflated)
            data = self._inflate.unconsumed_tail
            if self._inflate.eof:
                data = self._inflate.unused_data
                self._begin_member()

    def end(self) -> Iterator[Seen]:
        if self._is_in_member and not self._is_over:
            self.problems.add("the gzip file ends too early: its last part is missing")
        if self._is_first:
            yield from self._feed(bytes(self._beginning))
        if self.reader is None:
            yield from self._begin()
        assert self.reader is not None
        yield from self.reader.end()

    def _begin_member(self) -> None:
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._is_in_member = False

    def _feed(self, data: bytes) -> Iterator[Seen]:
        if self.reader is None:
            self._beginning += data
            if not _is_enough(self._beginning):
                return
            yield from self._begin()
        else:
            yield from self.reader.feed(data)

    def _begin(self) -> Iterator[Seen]:
        beginning = bytes(self._beginning)
        self._beginning.clear()
        if beginning[:4] in CAPTURES:
            self.reader = Capture(self._ports)
        elif _ROWS.match(beginning):
            self.reader = GatewayRows()
        elif _METRICS.match(beginning):
            self.reader = MetricsPage(self._when)
        else:
            self.reader = RequestLog()
        for what, count in self.problems.counts.items():
            self.reader.problems.add(what, count)
        self.problems = self.reader.problems
        yield from self.reader.feed(beginning)


def _is_enough(beginning: bytes | bytearray) -> bool:
    """Whether these bytes suffice to find the kind. A growing file may be small for a long time."""
    if len(beginning) >= BEGINNING or bytes(beginning[:4]) in CAPTURES:
        return True
    return b"\n" in beginning and len(beginning.strip()) > 1


_WORDS: Final[dict[type, str]] = {
    Capture: "packet capture",
    GatewayRows: "gateway's report",
    MetricsPage: "page of metrics",
    RequestLog: "request log",
}
