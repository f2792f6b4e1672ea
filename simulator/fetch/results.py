"""What a simulation found: one workload's runs as numbers, and whether everything was true.

Not here: measuring (runs.py), tables and plots (table.py, report.py)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from records.units import format_count
from simulator.measure import percentile, thinned

from .options import Mode, Options
from .plan import Plan
from .runs import Run

_JSON_POINTS = 200


@dataclass(slots=True)
class ModeResult:
    """One mode's numbers. Sizes are bytes; latencies are those of consumers that read as fast as
    they can."""

    plan: Plan
    run: Run

    def __post_init__(self) -> None:
        self.run.reading.latencies.sort()
        self.run.reading.first_bytes.sort()

    @property
    def peak(self) -> int:
        """The sender's resident memory above idle: the larger of what the system and what samples
        say."""
        return max([self.run.sent.peak, *(size for _, size in self.run.timeline)])

    def first_byte(self, percent: float) -> float:
        return percentile(self.run.reading.first_bytes, percent)

    def latency(self, percent: float) -> float:
        return percentile(self.run.reading.latencies, percent)

    @property
    def bytes_per_second(self) -> float:
        return self.run.reading.size / max(self.run.reading.seconds, 1e-9)

    @property
    def records_per_second(self) -> float:
        return self.run.reading.records / max(self.run.reading.seconds, 1e-9)

    @property
    def converted(self) -> int:
        return sum(answer.converted for answer in self.plan.answers)

    @property
    def filler(self) -> int:
        return sum(answer.filler for answer in self.plan.answers)

    def failures(self) -> list[str]:
        """What should have been otherwise."""
        tally, reading = self.run.sent.tally, self.run.reading
        wrong = {
            "not the bytes of the eager conversion": self.plan.different,
            "not of the size promised": self.plan.broken + tally.broken,
            "other bytes than planned reached a consumer": reading.wrong,
        }
        return [
            f"{self.run.mode}: {what}: {format_count(count, 'answer')}"
            for what, count in wrong.items()
            if count
        ]

    def to_json(self) -> dict[str, Any]:
        sent, reading = self.run.sent, self.run.reading
        tally = sent.tally
        return {
            "peak_bytes": self.peak,
            "idle_bytes": sent.idle,
            "buffers_of_one_send_bytes": tally.buffers_of_one,
            "buffers_of_all_sends_bytes": tally.buffers_of_all,
            "first_byte_seconds": _percentiles(reading.first_bytes),
            "fetch_seconds": _percentiles(reading.latencies),
            "bytes_per_second": round(self.bytes_per_second),
            "records_per_second": round(self.records_per_second),
            "seconds": reading.seconds,
            "cpu_seconds": sent.cpu_seconds,
            "answers": tally.answers,
            "promised_bytes": tally.promised,
            "sent_bytes": tally.sent,
            "fetches_per_walk": len(self.plan.fetches),
            "filler_bytes_per_walk": self.filler,
            "records_read_per_walk": self.plan.records,
            "records_converted_per_walk": self.converted,
            "memory_over_time": [
                [round(seconds, 4), size]
                for seconds, size in thinned(self.run.timeline, _JSON_POINTS)
            ],
        }


@dataclass(slots=True)
class Result:
    """One workload, all modes. `name` is the line that makes it, or the paths it was read from."""

    name: str
    files: int
    size: int  # bytes of all files
    options: Options
    modes: Mapping[Mode, ModeResult]
    damage: list[str]  # files that are read up to a point only: which, why, and where

    @property
    def backend(self) -> str:
        return next(iter(self.modes.values())).run.sent.backend

    @property
    def records(self) -> int:
        """Of one walk through the log."""
        return max(result.plan.records for result in self.modes.values())

    def failures(self) -> list[str]:
        """One line for each check that did not hold."""
        found = [line for result in self.modes.values() for line in result.failures()]
        read = {mode: result.plan.records for mode, result in self.modes.items()}
        if len(set(read.values())) > 1:
            numbers = ", ".join(f"{mode} {count:,}" for mode, count in read.items())
            found.append(f"the modes do not deliver the same number of records: {numbers}")
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "workload": self.name,
            "files": self.files,
            "bytes": self.size,
            "records": self.records,
            "modes": {mode: result.to_json() for mode, result in self.modes.items()},
            "damage": self.damage,
            "failures": self.failures(),
        }


def _percentiles(values: list[float]) -> dict[str, float]:
    return {f"p{percent}": percentile(values, percent) for percent in (50, 90, 99, 100)}
