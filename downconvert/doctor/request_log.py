"""Brokers' request logs: `kafka.request.logger` at DEBUG or TRACE, of Kafka 1.0 to 3.9.

Up to 2.7 a line is text (RequestChannel.updateRequestMetrics):

    [2020-01-31 12:00:00,123] DEBUG Completed request:RequestHeader(apiKey=FETCH, apiVersion=4,
    clientId=x, correlationId=7) -- {...},response:{...} from connection
    10.0.0.1:9092-10.0.0.2:40000-0;totalTime:1.2,...,clientInformation:ClientInformation(
    softwareName=unknown, softwareVersion=unknown) (kafka.request.logger)

From 2.8 on, JSON follows `Completed request:` (RequestConvertToJson). Either may be inside a line
of JSON from a logging layout.

A client's name may look like any of this. In JSON it is escaped, so the first and the last member
of a name are Kafka's own. In text it is not escaped, but there a client can only cut its own name
short."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from records.units import KiB

from .evidence import Problems, Seen, seen
from .releases import key_of

# A line at TRACE also has the records' sizes of each partition, and may be long. The needed parts
# are at its beginning and its end.
HEAD_MAX: Final = 64 * KiB  # bytes of a line that are read
TAIL_MAX: Final = 8 * KiB  # and of its end, if it is longer
MARK: Final = "Completed request:"
TIME_WITHIN: Final = 200  # characters
_HEADER: Final = re.compile(
    r"RequestHeader\(apiKey=(\w+), apiVersion=(\d{1,5}), clientId=(.*?), correlationId=-?\d+"
    r"(?:, headerVersion=\d+)?\) -- ",
    re.DOTALL,
)
_CONNECTION: Final = re.compile(r"(.*):\d+-(.*):\d+-\d+(?:-\d+)?", re.DOTALL)
_SOFTWARE: Final = re.compile(
    r"clientInformation:ClientInformation\(softwareName=([^,()]*), softwareVersion=([^,()]*)\)"
)
_TIME: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)")
_ESCAPED: Final = re.compile(r"\\(.)")
_DECODER: Final = json.JSONDecoder()


class RequestLog:
    """A Reader of a request log. Lines of other loggers are skipped."""

    def __init__(self) -> None:
        self.problems = Problems()
        self.requests = 0
        self._line = bytearray()  # the head of the unfinished line
        self._tail = bytearray()  # its end, if it is longer than the head

    def feed(self, data: bytes) -> Iterator[Seen]:
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end])
            yield from self._whole()
            start = end + 1
        self._keep(data[start:])

    def end(self) -> Iterator[Seen]:
        if self._line:
            yield from self._whole()
        if not self.requests:
            self.problems.add("no line of kafka.request.logger at DEBUG is in it")

    def _keep(self, data: bytes) -> None:
        room = HEAD_MAX - len(self._line)
        self._line += data[:room]
        if len(data) > room:
            self._tail += data[room:][-TAIL_MAX:]
            del self._tail[:-TAIL_MAX]

    def _whole(self) -> Iterator[Seen]:
        text = (self._line + self._tail).decode("utf-8", "replace")
        self._line.clear()
        self._tail.clear()
        if MARK not in text:
            return
        when = _time(text)
        if text.lstrip().startswith("{"):
            # A line that was cut is no JSON, but its message is still escaped once.
            text = _message(text) or _ESCAPED.sub(r"\1", text)
        start = text.find(MARK) + len(MARK)
        is_json = text.startswith("{", start)
        if is_json and '"isForwarded":true' in text[start : start + 50]:
            return  # the broker that forwarded it has logged it, too
        found = _from_json(text, start, when) if is_json else _from_text(text, start, when)
        if found is None:
            self.problems.add("lines of requests that cannot be read")
        else:
            self.requests += 1
            yield found


def _message(line: str) -> str | None:
    """The message in a line of JSON from a layout. None if there is none."""
    fields = _decoded(line, len(line) - len(line.lstrip()))
    if not isinstance(fields, dict):
        return None
    return next((text for text in fields.values() if isinstance(text, str) and MARK in text), None)


def _from_text(text: str, start: int, when: float | None) -> Seen | None:
    header = _HEADER.match(text, start)
    if header is None:
        return None
    end = text.rfind(";totalTime:")
    connection = text.rfind(" from connection ", 0, end) if end >= 0 else -1
    software = _SOFTWARE.search(text, end) if end >= 0 else None
    return seen(
        client_id=header[3],
        software=(software[1], software[2]) if software else ("", ""),
        address=_address(text[connection + len(" from connection ") : end], connection >= 0),
        api=key_of(header[1]),
        version=int(header[2]),
        when=when,
    )


def _from_json(text: str, start: int, when: float | None) -> Seen | None:
    header = _member(text, text.find('"requestHeader":', start))
    if not isinstance(header, dict):
        return None
    connection = _member(text, text.rfind('"connection":', start))
    software = _member(text, text.rfind('"clientInformation":', start))
    software = software if isinstance(software, dict) else {}
    api = header.get("requestApiKey")
    return seen(
        client_id=header.get("clientId"),
        software=(software.get("softwareName"), software.get("softwareVersion")),
        address=_address(connection, isinstance(connection, str)),
        api=key_of(str(header.get("requestApiKeyName"))) if api is None else api,
        version=header.get("requestApiVersion"),
        when=when,
    )


def _member(text: str, position: int) -> Any:
    """The value of the JSON member whose name is at `position`. None if there is none."""
    return None if position < 0 else _decoded(text, text.index(":", position) + 1)


def _decoded(text: str, position: int) -> Any:
    try:
        return _DECODER.raw_decode(text, position)[0]
    except (ValueError, RecursionError):
        return None


def _address(connection: Any, is_there: bool) -> str:
    """The client's address, from `local:port-remote:port-index`. IPv6 addresses have no
    brackets."""
    found = _CONNECTION.fullmatch(connection[-200:]) if is_there else None
    return found[2].lstrip("/") if found else ""


def _time(text: str) -> float | None:
    """Logs have no time zone, so UTC is assumed."""
    found = _TIME.search(text, 0, TIME_WITHIN)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups())
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return None
