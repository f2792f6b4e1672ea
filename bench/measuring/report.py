"""The tables of a comparison, for a terminal and for Markdown."""

from collections.abc import Iterator, Sequence
from typing import Final

from records.units import KiB

from .results import Result, millions
from .rounds import best

Row = tuple[str, ...]

COMPARISON: Final[Row] = (
    "shape",
    "level",
    "chunk",
    "M records/s, best (median)",
    "Kafka's",
    "x best",
    "x paired",
    "exact / estimate, time",
    "a call a chunk, time",
    "first byte, ms",
    "size / Kafka's",
    "CRC",
)
OTHERS: Final[Row] = (
    "shape",
    "M records/s",
    "Kafka, eager",
    "aiokafka",
    "kafka-python",
    "reference",
)
DOCUMENT: Final[Row] = (
    "v2 → v1",
    "M records/s, best (median)",
    "x Kafka, best (paired)",
    "x aiokafka",
    "x kafka-python",
    "exact / estimate, time",
)
NONE: Final = "-"


def comparison(results: Sequence[Result]) -> Iterator[Row]:
    for result in results:
        for case in result.cases:
            size = case.checked.size / result.kafka_size if result.kafka_size else None
            yield (
                result.shape,
                case.compression_level if "gzip" in result.shape else NONE,
                f"{case.chunk_size // KiB} KiB",
                millions(case.exact),
                millions(result.kafka) if result.kafka else NONE,
                f"{result.multiple(case):.2f}" if result.kafka else NONE,
                f"{result.paired_multiple(case):.2f}" if result.kafka else NONE,
                f"{case.exact_cost:.2f}",
                f"{case.chunks_cost:.2f}",
                f"{1000 * case.first_byte:.2f}",
                NONE if size is None else f"{size:.3f}",
                f"{case.checked.crc:08x}",
            )


def others(results: Sequence[Result]) -> Iterator[Row]:
    for result in results:
        case = result.cases[0]
        clients = (result.clients.get(name) for name in ("aiokafka", "kafka-python"))
        yield (
            result.shape,
            f"{best(case.exact) / 1e6:.2f}",
            f"{best(result.kafka_eager) / 1e6:.2f}" if result.kafka_eager else NONE,
            *(
                NONE if each is None else f"{each.rate / 1e6:.3f}"
                for each in (*clients, case.reference)
            ),
        )


def document(results: Sequence[Result]) -> Iterator[Row]:
    """The rows of docs/performance.md, from both tables."""
    for result in results:
        clients = [result.clients.get(name) for name in ("aiokafka", "kafka-python")]
        for case in result.cases:
            level = f", {case.compression_level}" if "gzip" in result.shape else ""
            yield (
                f"{result.shape}{level}",
                millions(case.exact),
                f"{result.multiple(case):.2f} ({result.paired_multiple(case):.2f})"
                if result.kafka
                else NONE,
                *(
                    NONE if each is None else f"{best(case.exact) / each.rate:.2g}"
                    for each in clients
                ),
                f"{case.exact_cost:.2f}",
            )


def as_markdown(results: Sequence[Result]) -> str:
    rows = (DOCUMENT, ("---",) * len(DOCUMENT), *document(results))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def as_table(results: Sequence[Result]) -> str:
    """Columns as wide as their cells."""
    tables = []
    for head, rows in ((COMPARISON, comparison(results)), (OTHERS, others(results))):
        table = (head, *rows)
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        tables.append(
            "\n".join(
                "  ".join(
                    cell.ljust(width) for cell, width in zip(row, widths, strict=True)
                ).rstrip()
                for row in table
            )
        )
    return "\n\n".join(tables)
