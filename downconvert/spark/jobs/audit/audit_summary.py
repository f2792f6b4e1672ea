"""An audit by topic: contents, costs and losses of old consumers, and obstacles to Kafka 4.

Brokers of Kafka 4 no longer write old formats, and no longer serve clients that read them. Figures
of a sample are scaled to all bytes of its format and codec.

Not here: making the rows (audit.py), the report (audit_report.py)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias

from records.units import format_size

Row: TypeAlias = Mapping[str, Any]

DAMAGES_MAX: Final = 5  # reported per topic
NOTHING: Final[Mapping[str, int]] = {}
SUMS: Final = (
    "segments",
    "log_bytes",
    "tail_bytes",
    "batches",
    "gaps",
    "missing_offsets",
    "damaged",
    "control_batches",
    "aborted_records",
    "sampled_bytes",
)


@dataclass(slots=True)
class Cost:
    """The cost of serving a whole topic once in an old format, scaled from the sample. Bytes."""

    cpu_seconds: float = 0.0
    bytes_out: float = 0.0
    buffers: int = 0  # of one fetch that is converted lazily
    temporary: int = 0  # of one that is converted at once, as brokers did before 2.0

    def add(self, found: Row, scale: float) -> None:
        self.cpu_seconds += found["cpu_seconds"] * scale
        self.bytes_out += found["bytes_out"] * scale
        self.buffers = max(self.buffers, found["buffers"])
        self.temporary = max(self.temporary, found["temporary"])


@dataclass(slots=True)
class Topic:
    """The findings for a topic. Sizes are bytes, times milliseconds.

    shares: bytes by format and codec. records: from batch headers; for compressed v0 and v1
    estimated from the sample. Losses (`headers`, `zstd`, …) count what clients of old formats
    miss. missing_offsets: offsets without a record, including compacted ones. absent_offsets:
    offsets that no copy has, although compaction has not removed them."""

    name: str
    partitions: int = 0
    segments: int = 0
    log_bytes: int = 0
    tail_bytes: int = 0
    batches: int = 0
    records: float = 0
    is_estimate: bool = False  # of records
    shares: dict[tuple[int, str], int] = field(default_factory=dict)
    payload: float = 0.0
    compressed_bytes: int = 0
    compressed_payload: float = 0.0
    sampled_bytes: int = 0
    oldest: int | None = None
    newest: int | None = None
    gaps: int = 0
    missing_offsets: int = 0
    absent_offsets: int = 0
    damaged: int = 0
    damages: list[str] = field(default_factory=list)
    control_batches: int = 0
    aborted_records: int = 0
    with_headers: float = 0.0  # records
    v1: Cost = field(default_factory=Cost)
    v0: Cost = field(default_factory=Cost)

    @property
    def old_bytes(self) -> int:
        """Bytes of v0 and v1."""
        return sum(size for (magic, _), size in self.shares.items() if magic < 2)

    @property
    def zstd_bytes(self) -> int:
        return sum(size for (_, codec), size in self.shares.items() if codec == "zstd")

    @property
    def ratio(self) -> float | None:
        """Bytes of keys, values and headers per byte in the log; None: no records."""
        return self.compressed_payload / self.compressed_bytes if self.compressed_bytes else None

    def to_json(self) -> dict[str, Any]:
        shares = [
            {"magic": magic, "codec": codec, "bytes": size}
            for (magic, codec), size in sorted(self.shares.items())
        ]
        return asdict(self) | {
            "shares": shares,
            "old_bytes": self.old_bytes,
            "zstd_bytes": self.zstd_bytes,
            "ready_for_kafka_4": self.is_ready,
        }

    @property
    def is_ready(self) -> bool:
        """Whether all of it is in a format that Kafka 4 reads and writes."""
        return not self.old_bytes


def summarise(rows: Iterable[Row], absent: Mapping[str, int] = NOTHING) -> list[Topic]:
    """The topics of an audit's rows, ordered by name. `absent`: the number of offsets that no copy
    has, by topic."""
    topics: dict[str, Topic] = {}
    partitions: dict[str, set[int]] = {}
    for row in rows:
        topic = topics.setdefault(row["topic"], Topic(row["topic"]))
        seen = partitions.setdefault(row["topic"], set())
        seen.add(row["partition"])
        topic.partitions = len(seen)
        _add(topic, row)
    for name, topic in topics.items():
        topic.absent_offsets = absent.get(name, 0)
    return [topics[name] for name in sorted(topics)]


def _add(topic: Topic, row: Row) -> None:
    for name in SUMS:
        setattr(topic, name, getattr(topic, name) + row[name])
    topic.damages += row["damages"][: DAMAGES_MAX - len(topic.damages)]
    times = [time for time in (topic.oldest, row["oldest"]) if time is not None]
    topic.oldest = min(times, default=None)
    topic.newest = max((t for t in (topic.newest, row["newest"]) if t is not None), default=None)
    if row["magic"] is None:
        return
    key = row["magic"], row["codec"]
    topic.shares[key] = topic.shares.get(key, 0) + row["bytes"]
    topic.records += row["records"]
    if not row["sampled_bytes"]:
        topic.is_estimate |= row["uncounted_bytes"] > 0
        return
    scale = (row["bytes"] - row["control_bytes"]) / row["sampled_bytes"]
    if row["uncounted_bytes"]:
        topic.records += row["sampled_records"] * row["uncounted_bytes"] / row["sampled_bytes"]
        topic.is_estimate |= scale > 1
    payload = row["sampled_payload"] * scale
    topic.payload += payload
    if row["codec"] != "none":
        topic.compressed_bytes += row["bytes"]
        topic.compressed_payload += payload
    topic.with_headers += row["sampled_with_headers"] * scale
    topic.v1.add(row["v1"], scale)
    topic.v0.add(row["v0"], scale)


def losses(topics: Sequence[Topic]) -> Iterator[str]:
    """Records that clients of older formats miss, or wrongly receive."""
    headers = sum(topic.with_headers for topic in topics)
    if headers:
        names = _names(topic for topic in topics if topic.with_headers)
        yield f"Headers: about {headers:,.0f} records have some, which only v2 can hold{names}."
    zstd = sum(topic.zstd_bytes for topic in topics)
    if zstd:
        names = _names(topic for topic in topics if topic.zstd_bytes)
        yield (
            f"zstd: {format_size(zstd)}, which Kafka refuses to clients before 2.1 (error 76) and "
            f"this converter compresses again{names}."
        )
    aborted = sum(topic.aborted_records for topic in topics)
    if aborted:
        names = _names(topic for topic in topics if topic.aborted_records)
        yield (
            f"Transactions: {aborted:,} records of aborted ones, which clients before 0.11 get "
            f"like any other{names}."
        )
    timed = sum(topic.records for topic in topics if topic.newest is not None)
    if timed:
        yield f"Timestamps, in v0: {timed:,.0f} records have one, and v0 has no place for it."
    yield "Producer ids, sequence numbers and leader epochs, in v0 and v1."


def _names(topics: Iterator[Topic]) -> str:
    names = [topic.name for topic in topics]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f" ({', '.join(names[:3])}{more})"
