"""The results of a simulation: the rounds of one workload as numbers, and the results of all
checks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from records.units import format_count
from simulator.measure import percentile, thinned
from simulator.modes import Mode
from simulator.report.costs import Cost, costs, is_made_at_once
from simulator.rounds import Rounds, merged

from .consumers import Reading
from .driver import Tally
from .options import Options
from .plan import Plan

_JSON_POINTS: Final = 200


@dataclass(slots=True)
class Sent:
    """The sender's measurements of its own process. Sizes are bytes."""

    backend: str
    tally: Tally
    idle: int
    peak: int  # above idle
    cpu_seconds: float


@dataclass(slots=True)
class Run:
    """One round of one mode. Latencies are those of consumers that read as fast as they can.

    timeline: seconds from the first request, bytes of the sender above idle."""

    plan: Plan
    sent: Sent
    reading: Reading
    timeline: list[tuple[float, int]]

    def __post_init__(self) -> None:
        self.reading.latencies.sort()
        self.reading.first_bytes.sort()

    @property
    def peak(self) -> int:
        """The sender's resident memory above idle: the maximum of the system's number and the
        samples."""
        return max([self.sent.peak, *(size for _, size in self.timeline)])

    @property
    def cpu_per_record(self) -> float:
        return self.sent.cpu_seconds / max(self.reading.records, 1)

    def first_byte(self, percent: float) -> float:
        return percentile(self.reading.first_bytes, percent)

    def last_byte(self, percent: float) -> float:
        return percentile(self.reading.latencies, percent)

    @property
    def bytes_per_second(self) -> float:
        return self.reading.size / max(self.reading.seconds, 1e-9)

    @property
    def records_per_second(self) -> float:
        return self.reading.records / max(self.reading.seconds, 1e-9)

    def to_json(self) -> dict[str, Any]:
        sent, reading, plan = self.sent, self.reading, self.plan
        tally = sent.tally
        return {
            "peak_bytes": self.peak,
            "idle_bytes": sent.idle,
            "first_byte_seconds": _percentiles(reading.first_bytes),
            "fetch_seconds": _percentiles(reading.latencies),
            "bytes_per_second": round(self.bytes_per_second),
            "records_per_second": round(self.records_per_second),
            "seconds": reading.seconds,
            "cpu_seconds": sent.cpu_seconds,
            "answers": tally.responses,
            "promised_bytes": tally.promised,
            "sent_bytes": tally.sent,
            "fetches_per_scan": len(plan.fetches),
            "filler_bytes_per_scan": plan.filler,
            "records_read_per_scan": plan.records,
            "records_converted_per_scan": plan.converted,
        }

    def timeline_to_json(self) -> list[list[float]]:
        line = thinned(self.timeline, _JSON_POINTS)
        return [[round(seconds, 4), size] for seconds, size in line]


@dataclass(slots=True)
class Result:
    """One workload, all modes. `name`: the line that makes it, or the paths that were read."""

    name: str
    files: int
    size: int  # bytes of all files
    options: Options
    modes: Mapping[Mode, Rounds[Run]]
    damage: list[str]  # files that are read only up to a point: which, why, and where

    @property
    def backend(self) -> str:
        return next(iter(self.modes.values())).each[0].sent.backend

    @property
    def plans(self) -> dict[Mode, Plan]:
        return {mode: rounds.each[0].plan for mode, rounds in self.modes.items()}

    @property
    def records(self) -> int:
        """The number of records in the whole log, read once."""
        return max(plan.records for plan in self.plans.values())

    @property
    def responses(self) -> int:
        """All that were read and compared."""
        return sum(
            rounds.total(lambda run: run.reading.responses) for rounds in self.modes.values()
        )

    @property
    def costs(self) -> list[Cost]:
        is_compressed = any(plan.is_compressed for plan in self.plans.values())
        size = min(self.options.max_bytes, self.size)
        return costs(self.modes, are_large=not is_made_at_once(size, is_compressed=is_compressed))

    def failures(self) -> list[str]:
        """One line for each failed check."""
        found = []
        for mode, rounds in self.modes.items():
            plan = self.plans[mode]
            broken = rounds.total(lambda run: run.sent.tally.broken)
            wrong = {
                "not the bytes of the eager conversion": plan.different,
                "not of the size promised": plan.broken + broken,
                "other bytes than planned reached a consumer": rounds.total(
                    lambda run: run.reading.wrong
                ),
            }
            found += [
                f"{mode}: {what}: {format_count(count, 'response')}"
                for what, count in wrong.items()
                if count
            ]
        read = {mode: plan.records for mode, plan in self.plans.items()}
        if len(set(read.values())) > 1:
            numbers = ", ".join(f"{mode} {count:,}" for mode, count in read.items())
            found.append(f"the modes do not deliver the same number of records: {numbers}")
        return found

    def to_json(self) -> dict[str, Any]:
        """The medians of each mode's rounds, then the rounds."""
        modes = {}
        for mode, rounds in self.modes.items():
            each = [run.to_json() for run in rounds.each]
            line = rounds.typical(lambda run: run.peak).timeline_to_json()
            modes[mode] = {**merged(each), "memory_over_time": line, "rounds": each}
        return {
            "workload": self.name,
            "files": self.files,
            "bytes": self.size,
            "records": self.records,
            "modes": modes,
            "lazy_beside_eager": [cost.to_json() for cost in self.costs],
            "damage": self.damage,
            "failures": self.failures(),
        }


def _percentiles(values: list[float]) -> dict[str, float]:
    return {f"p{percent}": percentile(values, percent) for percent in (50, 90, 99, 100)}
