"""The figures of a mode, in display order."""

from typing import Final

from records.units import format_seconds, format_size
from simulator.report.figures import Figure, count, microseconds, throughput_figures

from .results import Run

_LOG: Final = "once through the log"

PEAK: Final[Figure[Run]] = Figure(
    "memory", "peak above idle", lambda run: run.peak, format_size, "less"
)
FIRST_BYTE: Final[Figure[Run]] = Figure(
    "latency", "first byte, p99", lambda run: run.first_byte(99), format_seconds, "less"
)
LAST_BYTE: Final[Figure[Run]] = Figure(
    "latency", "last byte, p99", lambda run: run.last_byte(99), format_seconds, "less"
)
# For each record, because modes send different numbers of them in one round.
CPU: Final[Figure[Run]] = Figure(
    "work", "CPU per record", lambda run: run.cpu_per_record, microseconds, "less"
)

FIGURES: Final[tuple[Figure[Run], ...]] = (
    PEAK,
    Figure("latency", "first byte, p50", lambda run: run.first_byte(50), format_seconds, "less"),
    FIRST_BYTE,
    Figure("latency", "last byte, p50", lambda run: run.last_byte(50), format_seconds),
    LAST_BYTE,
    *throughput_figures(),
    CPU,
    Figure("all responses", "bytes promised", lambda run: run.sent.tally.promised, count),
    Figure("all responses", "bytes sent", lambda run: run.sent.tally.sent, count),
    Figure(_LOG, "fetches", lambda run: len(run.plan.fetches), count),
    Figure(_LOG, "filler bytes", lambda run: run.plan.filler, count),
    Figure(_LOG, "records read", lambda run: run.plan.records, count),
    Figure(_LOG, "records converted", lambda run: run.plan.converted, count),
)
