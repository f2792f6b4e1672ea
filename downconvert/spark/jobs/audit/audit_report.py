"""An audit as one HTML file, which opens offline and loads nothing.

Not here: the figures (audit_summary.py)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

from downconvert.report.page import framed, write_page
from records.units import format_count, format_seconds, format_size

from .audit_summary import Cost, Topic, losses

# Old formats have warm colours, the current one a cool colour. Darker means more compressed.
COLOURS: Final = {0: "#d1495b", 1: "#edae49", 2: "#0b7a75"}
OPACITY: Final = {"none": 0.45, "snappy": 0.65, "lz4": 0.75, "gzip": 0.88, "zstd": 1.0}
NOTES: Final = (
    "All batch headers are read. Records are read, and conversions measured, on the sample that is "
    "named above: stretches of 1 MiB spread over each segment, at least one of each format and "
    "codec. The measurements are scaled to all bytes of that format and codec.",
    "CPU is of one core, for serving everything once to one consumer group. Two groups of old "
    "clients cost twice that.",
    "Memory is what one fetch of 1 MiB holds: lazily, what this project's converter holds while it "
    "sends; at once, what a converter holds that converts all of it first, as Kafka counts it "
    "(TemporaryMemoryBytes).",
    "Gaps are offsets that no record has: compaction leaves them, aborted transactions and their "
    "markers too, and so does damage. In compressed v0 and v1 they are not detected.",
    "All checksums are compared; with --no-verify-crc only those in the sample.",
)


@dataclass(frozen=True, slots=True)
class Heading:
    """The paths, the command, and whether the audit was of a sample, for the head of the report."""

    paths: Sequence[str]
    command: str
    is_sample: bool


def write_report(path: Path, topics: Sequence[Topic], heading: Heading) -> None:
    """Writes the file atomically."""
    words, is_good = _conclusion(topics)
    title = "Log directories, audited"
    lead = _lead(topics, heading)
    parts = _sections(topics)
    write_page(path, framed(title, words, heading.command, parts, is_good=is_good, lead=lead))


def _conclusion(topics: Sequence[Topic]) -> tuple[str, bool]:
    old = [topic for topic in topics if not topic.is_ready]
    damaged = sum(topic.damaged for topic in topics)
    words = f", and {format_count(damaged, 'place')} damaged" if damaged else ""
    if not old:
        return f"Ready for Kafka 4: every batch is v2{words}.", not damaged
    size = sum(topic.old_bytes for topic in old)
    return (
        f"Not ready for Kafka 4: {len(old)} of {format_count(len(topics), 'topic')} "
        f"{'holds' if len(old) == 1 else 'hold'} {format_size(size)} of v0 and v1{words}.",
        False,
    )


def _sections(topics: Sequence[Topic]) -> Iterator[str]:
    yield from _readiness(topics)
    yield from _contents(topics)
    yield from _costs(topics)
    yield from _losses(topics)
    yield from _damage(topics)
    yield '<section><h2>How it was measured</h2><ul class="facts">'
    yield from (f"<li>{escape(note)}</li>" for note in NOTES)
    yield "</ul></section>"


def _lead(topics: Sequence[Topic], heading: Heading) -> str:
    size = sum(topic.log_bytes for topic in topics)
    partitions = sum(topic.partitions for topic in topics)
    segments = sum(topic.segments for topic in topics)
    sampled = sum(topic.sampled_bytes for topic in topics)
    share = f"{100 * sampled / size:.3g} %" if size else "none"
    return (
        f"{format_size(size)} in {format_count(len(topics), 'topic')}, "
        f"{format_count(partitions, 'partition')}, {format_count(segments, 'segment')}, below "
        f"{' '.join(heading.paths)}; {share} of it read and converted"
        f"{' as a sample' if heading.is_sample else ''}."
    )


# --- Kafka 4


def _readiness(topics: Sequence[Topic]) -> Iterator[str]:
    """Reasons not to upgrade to Kafka 4, which neither serves old clients nor writes old
    formats."""
    old = sorted((t for t in topics if not t.is_ready), key=lambda t: -t.old_bytes)
    yield "<section><h2>Ready for Kafka 4?</h2>"
    yield (
        '<p class="what">Brokers of Kafka 4 write v2 only and no longer convert for old '
        "consumers (KIP-724, KIP-896).</p>"
    )
    if not old:
        yield '<p class="good">Every batch is v2.</p></section>'
        return
    yield (
        "<p>Wait until retention removes it, or rewrite it: <code>downconvert spark convert "
        "--to-magic 2 DIR OUT</code>. An audit does not see consumers. Old ones must be upgraded "
        "before the move, or read through the gateway.</p>"
    )
    yield "<table><thead><tr><th>topic</th><th>v0</th><th>v1</th><th>of the topic</th>"
    yield "<th>youngest batch</th></tr></thead><tbody>"
    for topic in old:
        v0, v1 = (_bytes_of(topic, magic) for magic in (0, 1))
        yield (
            f"<tr><td>{escape(topic.name)}</td><td>{_size(v0)}</td>"
            f"<td>{_size(v1)}</td><td>{_percent(topic.old_bytes, topic.log_bytes)}</td>"
            f"<td>{_date(topic.newest)}</td></tr>"
        )
    yield "</tbody></table></section>"


# --- contents


def _contents(topics: Sequence[Topic]) -> Iterator[str]:
    yield "<section><h2>What there is</h2>"
    kinds = sorted({key for topic in topics for key in topic.shares})
    yield '<div class="legend">'
    for kind in kinds:
        yield f'<span><i style="{_colour(kind)}"></i>v{kind[0]} {kind[1]}</span>'
    yield "</div>"
    yield "<table><thead><tr><th>topic</th><th>formats and codecs</th><th>size</th>"
    yield "<th>records</th><th>compressed to</th><th>from</th><th>to</th></tr></thead><tbody>"
    for topic in sorted(topics, key=lambda topic: -topic.log_bytes):
        records = f"{'~' * topic.is_estimate}{topic.records:,.0f}"
        ratio = "" if topic.ratio is None else f"1 / {topic.ratio:.2g}"
        yield (
            f"<tr><td>{escape(topic.name)}</td><td>{_bar(topic)}</td>"
            f"<td>{format_size(topic.log_bytes)}</td><td>{records}</td><td>{ratio}</td>"
            f"<td>{_date(topic.oldest)}</td><td>{_date(topic.newest)}</td></tr>"
        )
    yield "</tbody></table></section>"


def _bar(topic: Topic) -> str:
    total = sum(topic.shares.values())
    parts = []
    for kind, size in sorted(topic.shares.items()):
        words = escape(f"v{kind[0]} {kind[1]}: {format_size(size)}", quote=True)
        width = f"width:{100 * size / total:.2f}%"
        parts.append(f'<span style="{width};{_colour(kind)}" title="{words}"></span>')
    words = ", ".join(
        f"v{magic} {codec} {_percent(size, total)}"
        for (magic, codec), size in sorted(topic.shares.items())
    )
    return f'<div><div class="bar">{"".join(parts)}</div><small>{escape(words)}</small></div>'


def _colour(kind: tuple[int, str]) -> str:
    magic, codec = kind
    return f"background:{COLOURS.get(magic, '#000')};opacity:{OPACITY.get(codec, 1.0)}"


# --- costs and losses of old clients


def _costs(topics: Sequence[Topic]) -> Iterator[str]:
    yield "<section><h2>What old consumers cost</h2>"
    yield '<p class="what">Serving everything once to consumers that read an older format.</p>'
    for name, costs in (("v1", [t.v1 for t in topics]), ("v0", [t.v0 for t in topics])):
        reads = "0.10 to 0.10.2" if name == "v1" else "0.8 and 0.9"
        yield f"<h3>{name}, read by clients of Kafka {reads}</h3>"
        cpu = sum(cost.cpu_seconds for cost in costs)
        out = sum(cost.bytes_out for cost in costs)
        size = sum(topic.log_bytes for topic in topics)
        yield '<div class="tiles">'
        yield _tile("CPU of one core", format_seconds(cpu), f"{_rate(size, cpu)} of log")
        yield _tile("bytes sent", format_size(out), f"{_percent(out, size)} of what is stored")
        lazily = max((cost.buffers for cost in costs), default=0)
        at_once = max((cost.temporary for cost in costs), default=0)
        yield _tile("memory of one fetch, lazily", format_size(lazily), "while it is sent")
        yield _tile("and where it is converted at once", format_size(at_once), "before it is sent")
        yield "</div>"
    yield "<table><thead><tr><th>topic</th><th>v1: CPU</th><th>v1: sent</th><th>v0: CPU</th>"
    yield "<th>v0: sent</th></tr></thead><tbody>"
    for topic in sorted(topics, key=lambda topic: -topic.v1.cpu_seconds):
        yield (f"<tr><td>{escape(topic.name)}</td>{_cost(topic.v1)}{_cost(topic.v0)}</tr>")
    yield "</tbody></table></section>"


def _cost(cost: Cost) -> str:
    return f"<td>{format_seconds(cost.cpu_seconds)}</td><td>{_size(cost.bytes_out)}</td>"


def _tile(label: str, figure: str, beside: str) -> str:
    return (
        f'<div class="tile"><div class="label">{escape(label)}</div>'
        f'<div class="figure">{escape(figure)}</div>'
        f'<div class="beside">{escape(beside)}</div></div>'
    )


def _losses(topics: Sequence[Topic]) -> Iterator[str]:
    yield "<section><h2>What old consumers miss</h2><ul>"
    for line in losses(topics):
        yield f"<li>{escape(line)}</li>"
    yield "</ul></section>"


# --- damage


def _damage(topics: Sequence[Topic]) -> Iterator[str]:
    yield "<section><h2>Damage and gaps</h2>"
    damages = [damage for topic in topics for damage in topic.damages]
    damaged = sum(topic.damaged for topic in topics)
    if damaged:
        yield f'<p class="failed">{format_count(damaged, "place")} damaged.</p><ul>'
        yield from (f"<li>{escape(damage)}</li>" for damage in damages)
        yield "</ul>"
        if damaged > len(damages):
            yield f"<p>{damaged - len(damages):,} more like these.</p>"
    else:
        yield '<p class="held">No damage was found.</p>'
    with_gaps = [topic for topic in topics if topic.gaps or topic.absent_offsets]
    if with_gaps:
        yield "<table><thead><tr><th>topic</th><th>gaps</th><th>offsets without a record</th>"
        yield "<th>in no copy</th><th>markers</th></tr></thead><tbody>"
        for topic in with_gaps:
            yield (
                f"<tr><td>{escape(topic.name)}</td><td>{topic.gaps:,}</td>"
                f"<td>{topic.missing_offsets:,}</td><td>{topic.absent_offsets:,}</td>"
                f"<td>{topic.control_batches:,}</td></tr>"
            )
        yield "</tbody></table>"
    yield "</section>"


# --- words


def _bytes_of(topic: Topic, magic: int) -> int:
    return sum(size for (of, _), size in topic.shares.items() if of == magic)


def _size(size: float) -> str:
    return format_size(size) if size else ""


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else ""


def _rate(size: float, seconds: float) -> str:
    return f"{size / seconds / 1e6:,.0f} MB/s" if seconds else ""


def _date(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):  # producers may write any timestamp
        return f"{milliseconds} ms"
