"""The figures of a mode, in the order in which they are shown: what each is called, and which way
is better.

Not here: how they were measured (runs.py), the tables they stand in (table.py, report.py)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from records.units import format_rate, format_seconds, format_size

from .results import ModeResult, Result

SAME_WITHIN: Final = 1.05  # two runs of one thing differ by as much


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of a table. `better` is empty where the figure is not a merit."""

    group: str
    label: str
    value: Callable[[ModeResult], float]
    text: Callable[[float], str]
    better: Literal["less", "more", ""] = ""

    def shown(self, result: ModeResult) -> str:
        return self.text(self.value(result))

    def verdict(self, result: Result) -> tuple[str, bool | None]:
        """Lazy beside eager in words ("21x less"), and whether that is good; None: neither."""
        if not self.better or "lazy" not in result.modes or "eager" not in result.modes:
            return "", None
        lazy, eager = (self.value(result.modes[mode]) for mode in ("lazy", "eager"))
        return compared(lazy, eager, self.better)


def compared(lazy: float, eager: float, better: str) -> tuple[str, bool | None]:
    """One figure beside another in words, and whether that is good; None: neither."""
    if lazy <= 0 or eager <= 0:
        return "", None
    ratio = max(lazy / eager, eager / lazy)
    if ratio <= SAME_WITHIN:
        return "same", None
    direction = "less" if lazy < eager else "more"
    factor = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"
    return f"{factor}x {direction}", direction == better


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f} MB/s"


def _cpu(value: float) -> str:
    return f"{value:.2f} s"


def _per_cpu_second(mode: ModeResult) -> float:
    """What does not change with what else the machine is doing."""
    return mode.run.reading.records / max(mode.run.sent.cpu_seconds, 1e-9)


METRICS: Final = (
    Metric("memory", "peak above idle", lambda mode: mode.peak, format_size, "less"),
    Metric(
        "memory",
        "buffers of all sends",
        lambda mode: mode.run.sent.tally.buffers_of_all,
        format_size,
        "less",
    ),
    Metric(
        "memory",
        "buffers of one send",
        lambda mode: mode.run.sent.tally.buffers_of_one,
        format_size,
        "less",
    ),
    Metric("latency", "first byte, p50", lambda mode: mode.first_byte(50), format_seconds, "less"),
    Metric("latency", "first byte, p99", lambda mode: mode.first_byte(99), format_seconds, "less"),
    Metric("latency", "last byte, p50", lambda mode: mode.latency(50), format_seconds, "less"),
    Metric("latency", "last byte, p99", lambda mode: mode.latency(99), format_seconds, "less"),
    Metric("work", "bytes a second", lambda mode: mode.bytes_per_second, _megabytes, "more"),
    Metric("work", "records a second", lambda mode: mode.records_per_second, format_rate, "more"),
    Metric("work", "records a CPU second", _per_cpu_second, format_rate, "more"),
    Metric("work", "CPU of the sender", lambda mode: mode.run.sent.cpu_seconds, _cpu, "less"),
    Metric("all answers", "bytes promised", lambda mode: mode.run.sent.tally.promised, _count),
    Metric("all answers", "bytes sent", lambda mode: mode.run.sent.tally.sent, _count),
    Metric("once through the log", "fetches", lambda mode: len(mode.plan.fetches), _count),
    Metric("once through the log", "filler bytes", lambda mode: mode.filler, _count),
    Metric("once through the log", "records read", lambda mode: mode.plan.records, _count),
    Metric("once through the log", "records converted", lambda mode: mode.converted, _count),
)
