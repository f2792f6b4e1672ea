"""Fetches a topic in a version and with a limit, and reports the broken rules.

A reading begins at offset 0, and continues after the last record of each response, like a client of
that version. Responses are judged as bytes and as records.

Not here: the topics (plans.py, writing.py), the rules (rules.py)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from downconvert.protocol.schemas import ApiKey
from records import Codec, MemoryRecords, Record, RecordsError, TimestampType
from records.batch import BatchHeader
from records.batches.reader import read_batch
from records.formats import PREFIX, V0, V1, V2

from .connection import ConformanceError, SilentError
from .fetching import LARGE, fetch
from .plans import Plan
from .writing import Cluster, Written

ROUNDS_MAX: Final = 400  # fetches of one reading; the longest topic has 40 batches
SHOWN: Final = 48  # bytes of a response in a finding
WHOLE_FIRST_SINCE: Final = 3  # the first batch is sent whole, whatever the limit [KIP-74]
ZSTD_SINCE: Final = 10
UNSUPPORTED_COMPRESSION: Final = 76


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule."""

    rule: str
    words: str
    shown: str = ""  # the bytes in question, as hexadecimal digits


@dataclass(slots=True)
class Case:
    """A topic, read in one version with one limit."""

    topic: str
    version: int
    limit: str
    findings: list[Finding] = field(default_factory=list)
    bytes_sent: int = 0  # of records, by the broker
    bytes_again: int = 0  # of those, bytes after the last whole message, which are sent again


def cases(cluster: Cluster, written: Written) -> Iterator[Case]:
    """The topic in each offered version, with each limit. Once a version was not answered in time,
    it is not tried again. ConformanceError: the broker is gone."""
    first = written.first_size
    for version in cluster.offers(ApiKey.Fetch):
        # Old formats are larger: the first batch fits into twice its size, and 1 KB.
        for name, limit in (("1", 1), ("first batch", 2 * first + 1024), ("1 MiB", LARGE)):
            case = Case(written.plan.name, version, name)
            if version in cluster.silent:
                case.findings.append(
                    Finding("answer", "not asked again, after no response in time")
                )
                yield case
                continue
            try:
                _Reading(cluster, written, case, limit).run()
            except ConformanceError as error:
                if isinstance(error, SilentError):
                    cluster.silent.add(version)
                case.findings.append(Finding("answer", str(error)))
                cluster.renew(written.leader)
            yield case


class _Reading:
    """One client that reads one topic."""

    def __init__(self, cluster: Cluster, written: Written, case: Case, limit: int) -> None:
        self._cluster = cluster
        self._written = written
        self._case = case
        self._limit = limit
        self._version = case.version
        self._magic = V0 if case.version < 2 else V1 if case.version < 4 else V2
        self._sent = dict(_sent(written))
        self._got: dict[int, Record] = {}

    def run(self) -> None:
        position = 0
        # Below version 3 a limit that is too small is the client's own mistake.
        guaranteed = self._version >= WHOLE_FIRST_SINCE or self._limit > 1
        if self._written.plan.name == "large" and self._version < WHOLE_FIRST_SINCE:
            guaranteed &= self._limit >= LARGE
        for _ in range(ROUNDS_MAX):
            response = fetch(self._cluster, self._written, self._version, position, self._limit)
            if response.error_code:
                self._error(response.error_code)
                return
            data = bytes(response.records or b"")
            end = self._judge(data, position)
            if not guaranteed:
                return
            if end <= position:
                if response.high_watermark > position:
                    self._no_progress(position, data)
                break
            position = end
            if position >= response.high_watermark:
                break
        else:
            self._find("stuck", f"not at the end after {ROUNDS_MAX} fetches, at offset {position}")
        self._compare()

    def _judge(self, data: bytes, position: int) -> int:
        """Judges a response's records. Returns the next offset of the client."""
        self._case.bytes_sent += len(data)
        log = MemoryRecords(data)
        end, last, whole = position, -1, 0
        try:
            for header in log.batches():
                # One larger message is allowed, because the client could not continue otherwise.
                is_first = header.position == 0
                whole = header.position + header.size
                if self._version < WHOLE_FIRST_SINCE and whole > self._limit and not is_first:
                    self._find("limit", f"{len(data)} bytes, of at most {self._limit}")
                if header.magic > self._magic:
                    self._find("format", f"v{header.magic}", data[header.position :])
                    return position
                if header.codec is Codec.ZSTD and self._version < ZSTD_SINCE:
                    self._find("codec", "zstd", data[header.position :])
                last, end = self._records(log, header, last, end)
        except RecordsError as error:
            self._find("damage", str(error), data[whole:])
            return end
        if whole < len(data):
            self._tail(data[whole:])
        return end

    def _records(
        self, log: MemoryRecords, header: BatchHeader, last: int, end: int
    ) -> tuple[int, int]:
        """Takes a batch's records. Returns the last offset in the response, and the client's
        next."""
        if header.magic == V2:
            if header.base_offset <= last:
                self._find("once", f"offset {header.base_offset} after {last}")
            if header.is_control:
                return header.last_offset, max(end, header.last_offset + 1)
        for record in read_batch(log, header, record_size_max=LARGE):
            if record.offset <= last:
                self._find("once", f"offset {record.offset} after {last}")
            last = max(last, record.offset)
            end = max(end, record.offset + 1)
            if record.offset in self._sent:  # memory is limited by the sent records
                self._got.setdefault(record.offset, record)
            else:
                self._find("all", f"offset {record.offset}: nobody sent it")
        return last, max(end, header.last_offset + 1) if header.magic == V2 else end

    def _tail(self, tail: bytes) -> None:
        """Judges the bytes after the last whole message."""
        self._case.bytes_again += len(tail)
        if len(tail) >= 8 and PREFIX.unpack(tail.ljust(PREFIX.size, b"\0")[: PREFIX.size])[0] < 0:
            self._find("filler", f"{len(tail)} bytes that are no message", tail)

    def _no_progress(self, position: int, data: bytes) -> None:
        left = [offset for offset in self._required() if offset >= position]
        if left:
            size = f"{len(data)} bytes, and " if data else ""
            words = f"at offset {position}: {size}no record, but {left[0]} is there"
            self._find("stuck", words, data)

    def _error(self, code: int) -> None:
        if code == UNSUPPORTED_COMPRESSION and self._written.plan.has_zstd:
            self._find("codec", "error 76, instead of the records")
        else:
            self._find("answer", f"error {code}")

    def _required(self) -> Iterator[int]:
        return (offset for offset, (_, is_optional) in self._sent.items() if not is_optional)

    def _compare(self) -> None:
        missing = [offset for offset in self._required() if offset not in self._got]
        if missing:
            self._find("all", f"{len(missing)} records are missing, the first is {missing[0]}")
        for offset, got in sorted(self._got.items()):
            wrong = _difference(self._sent[offset][0], got, self._magic, self._written.plan)
            if wrong:
                self._find("equal", f"offset {offset}: another {wrong}")
                return

    def _find(self, rule: str, words: str, data: bytes = b"") -> None:
        if all(finding.rule != rule for finding in self._case.findings):
            self._case.findings.append(Finding(rule, words, data[:SHOWN].hex(" ")))


def _sent(written: Written) -> Iterator[tuple[int, tuple[Record, bool]]]:
    """The sent records by offset, and whether a reader may miss each."""
    plan = written.plan
    latest = plan.latest()
    for number, (batch, first) in enumerate(zip(plan.batches, written.offsets, strict=True)):
        for record in batch.records:
            is_gone = plan.is_compacted and (number, record.offset) not in latest
            yield first + record.offset, (record, is_gone or batch.transaction is False)


def _difference(sent: Record, got: Record, magic: int, plan: Plan) -> str:
    """The differing field of a record; empty if there is none."""
    magic = min(magic, plan.magic)
    if (sent.key, sent.value) != (got.key, got.value):
        return "key" if sent.key != got.key else "value"
    if magic == V2 and sent.headers != got.headers:
        return "header"
    if magic == V0:
        return ""
    if plan.is_append_time:
        return "" if got.timestamp_type is TimestampType.LOG_APPEND else "type of time"
    return "" if sent.timestamp == got.timestamp else "time"
