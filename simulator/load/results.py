"""What a simulation of the whole path found, as numbers, and whether everything was true.

Not here: measuring (load.py), tables and plots (load_table.py, load_report.py)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from records.units import format_count
from simulator.fetch.options import Mode
from simulator.measure import percentile, thinned

from .clients import Heard, Listening
from .options import TODAYS, Group, LoadOptions
from .phases import Shares
from .server import Served

_JSON_POINTS: Final = 200
PERCENTILES: Final = (50, 90, 99, 100)


@dataclass(slots=True)
class LoadRun:
    """One run. Sizes are bytes; latencies, in seconds, are those of clients that are not slow.

    groups: the clients that there were.
    connected: what the server held for connections alone, before the first request.
    timeline: seconds from the beginning, bytes above idle."""

    mode: Mode
    groups: tuple[Group, ...]
    served: Served
    listenings: list[Listening]
    connected: int
    timeline: list[tuple[float, int]]

    def __post_init__(self) -> None:
        for heard in self.kinds.values():
            heard.latencies.sort()
            heard.first_bytes.sort()

    @property
    def kinds(self) -> dict[str, Heard]:
        return {
            kind: heard for listening in self.listenings for kind, heard in listening.kinds.items()
        }

    @property
    def seconds(self) -> float:
        return max(listening.seconds for listening in self.listenings)

    @property
    def peak(self) -> int:
        """The larger of what the system and what samples say."""
        return max([self.served.peak, *(size for _, size in self.timeline)])

    @property
    def clients(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def peak_per_client(self) -> float:
        return self.peak / self.clients

    @property
    def answers(self) -> int:
        return sum(heard.answers for heard in self.kinds.values())

    @property
    def bytes_per_second(self) -> float:
        return sum(heard.size for heard in self.kinds.values()) / max(self.seconds, 1e-9)

    @property
    def records_per_second(self) -> float:
        return sum(heard.records for heard in self.kinds.values()) / max(self.seconds, 1e-9)

    @property
    def records_per_cpu_second(self) -> float:
        """What does not change with what else the machine is doing."""
        return sum(heard.records for heard in self.kinds.values()) / max(self.served.cpu, 1e-9)

    @property
    def looping(self) -> float:
        """CPU seconds of the server that no phase accounts for."""
        served = self.served
        return max(0.0, served.cpu - served.finding - served.converting - served.sending)

    def latency(self, kind: str, percent: float) -> float:
        return percentile(self.kinds[kind].latencies, percent)

    def first_byte(self, kind: str, percent: float) -> float:
        return percentile(self.kinds[kind].first_bytes, percent)

    def todays(self, percent: float) -> float:
        """The latency of clients for whom nothing is converted."""
        kinds = [group.kind for group in self.groups if not group.is_old]
        return percentile(
            sorted(value for kind in kinds for value in self.kinds[kind].latencies), percent
        )

    def cpu(self, shares: Shares) -> dict[str, float]:
        """CPU seconds by phase: finding, sending and the loop as measured, and the conversion
        divided as when it is done alone."""
        served = self.served
        return {
            "find and measure": served.finding,
            "read": served.converting * shares.read,
            "decompress": served.converting * shares.decompress,
            "convert": served.converting * shares.convert,
            "compress": served.converting * shares.compress,
            "send": served.sending,
            "event loop": self.looping,
        }

    def to_json(self, shares: Shares) -> dict[str, Any]:
        return {
            "peak_bytes": self.peak,
            "peak_bytes_per_client": round(self.peak_per_client),
            "idle_bytes": self.served.idle,
            "connected_bytes": self.connected,
            "seconds": self.seconds,
            "bytes_per_second": round(self.bytes_per_second),
            "records_per_second": round(self.records_per_second),
            "records_per_cpu_second": round(self.records_per_cpu_second),
            "cpu_seconds": self.served.cpu,
            "cpu_seconds_by_phase": self.cpu(shares),
            "clients": {
                group.kind: self._kind_to_json(group, self.kinds[group.kind])
                for group in self.groups
            },
            "memory_over_time": [
                [round(seconds, 4), size] for seconds, size in thinned(self.timeline, _JSON_POINTS)
            ],
        }

    def _kind_to_json(self, group: Group, heard: Heard) -> dict[str, Any]:
        return {
            "clients": group.count,
            "fetch_version": group.version_in(self.mode),
            "answers": heard.answers,
            "wrong_answers": heard.wrong,
            "bytes_per_second": round(heard.size / self.seconds),
            "records_per_second": round(heard.records / self.seconds),
            "first_byte_seconds": _percentiles(heard.first_bytes),
            "fetch_seconds": _percentiles(heard.latencies),
        }


@dataclass(slots=True)
class LoadResult:
    """All runs of one simulation. `alone`: today's clients without the old ones."""

    name: str
    options: LoadOptions
    runs: Mapping[Mode, LoadRun]
    alone: LoadRun | None
    shares: Shares
    planned: int  # answers that were made and compared before anything was measured

    @property
    def backend(self) -> str:
        return next(iter(self.runs.values())).served.backend

    def unfairness(self, mode: Mode, percent: float = 99) -> float | None:
        """How many times as long fetches of today's clients take where old ones convert; None:
        there are not both."""
        if self.alone is None or not (alone := self.alone.todays(percent)):
            return None
        return self.runs[mode].todays(percent) / alone

    def failures(self) -> list[str]:
        """One line for each check that did not hold."""
        runs = {f"{mode}": run for mode, run in self.runs.items()}
        if self.alone is not None:
            runs[f"{TODAYS} alone"] = self.alone
        return [
            f"{name}: other bytes than planned reached clients of {kind}: "
            + format_count(heard.wrong, "answer")
            for name, run in runs.items()
            for kind, heard in run.kinds.items()
            if heard.wrong
        ]

    def to_json(self) -> dict[str, Any]:
        fairness = {mode: self.unfairness(mode) for mode in self.runs}
        return {
            "name": self.name,
            "workload": str(self.options.workload),
            "partitions": self.options.partitions,
            "planned_answers": self.planned,
            "modes": {mode: run.to_json(self.shares) for mode, run in self.runs.items()},
            "todays_clients_alone": self.alone.to_json(self.shares) if self.alone else None,
            "p99_of_todays_clients_beside_old_ones_by_alone": fairness if self.alone else None,
            "failures": self.failures(),
        }


def _percentiles(values: list[float]) -> dict[str, float]:
    return {f"p{percent}": percentile(values, percent) for percent in PERCENTILES}
