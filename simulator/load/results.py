"""The results of a simulation over TCP, as numbers, and the results of all checks."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from records.units import format_count
from simulator.measure import percentile, thinned
from simulator.modes import Mode
from simulator.report.costs import Cost, costs, is_made_at_once
from simulator.report.figures import records_per_cpu_second
from simulator.rounds import Rounds, merged

from .clients import ClientStats, RunStats
from .options import TODAYS, Group, LoadOptions
from .phases import Shares
from .server import Served

_JSON_POINTS: Final = 200
PERCENTILES: Final = (50, 90, 99, 100)
ALONE: Final = "alone"  # the rounds of current clients without old ones

Values = Callable[[ClientStats], list[float]]


@dataclass(slots=True)
class LoadRun:
    """One round of one mode. Sizes are bytes; latencies, in seconds, are those of clients that are
    not slow.

    groups: its clients.
    connected: memory for connections alone, before the first request.
    timeline: seconds from the beginning, bytes above idle."""

    mode: Mode
    groups: tuple[Group, ...]
    served: Served
    stats: list[RunStats]  # of each process of clients
    connected: int
    timeline: list[tuple[float, int]]

    def __post_init__(self) -> None:
        for stats in self.kinds.values():
            stats.latencies.sort()
            stats.first_bytes.sort()

    @property
    def kinds(self) -> dict[str, ClientStats]:
        return {kind: of_kind for stats in self.stats for kind, of_kind in stats.kinds.items()}

    @property
    def seconds(self) -> float:
        return max(stats.seconds for stats in self.stats)

    @property
    def peak(self) -> int:
        """The maximum of the system's figure and the samples."""
        return max([self.served.peak, *(size for _, size in self.timeline)])

    @property
    def clients(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def peak_per_client(self) -> float:
        return self.peak / self.clients

    @property
    def responses(self) -> int:
        return sum(stats.responses for stats in self.kinds.values())

    @property
    def bytes_per_second(self) -> float:
        return sum(stats.size for stats in self.kinds.values()) / max(self.seconds, 1e-9)

    @property
    def records_per_second(self) -> float:
        return sum(stats.records for stats in self.kinds.values()) / max(self.seconds, 1e-9)

    @property
    def cpu_per_record(self) -> float:
        return self.served.cpu / max(sum(stats.records for stats in self.kinds.values()), 1)

    @property
    def looping(self) -> float:
        """CPU seconds of the server that belong to no phase."""
        served = self.served
        known = served.finding + served.converting + served.turning + served.sending
        return max(0.0, served.cpu - known)

    def first_byte(self, percent: float) -> float:
        """A percentile over old clients' fetches. (In zero-copy mode they are not converted.)"""
        return percentile(self._of_old_clients(lambda stats: stats.first_bytes), percent)

    def last_byte(self, percent: float) -> float:
        """As `first_byte`."""
        return percentile(self._of_old_clients(lambda stats: stats.latencies), percent)

    def first_byte_of(self, kind: str, percent: float) -> float:
        return percentile(self.kinds[kind].first_bytes, percent)

    def last_byte_of(self, kind: str, percent: float) -> float:
        return percentile(self.kinds[kind].latencies, percent)

    def todays(self, percent: float) -> float:
        """The latency of clients without conversion."""
        return percentile(self._sorted(lambda stats: stats.latencies, is_old=False), percent)

    def _of_old_clients(self, values: Values) -> list[float]:
        """The values of old clients or, without any, of current ones."""
        return self._sorted(values, is_old=True) or self._sorted(values, is_old=False)

    def _sorted(self, values: Values, *, is_old: bool) -> list[float]:
        kinds = [group.kind for group in self.groups if group.is_old == is_old]
        return sorted(value for kind in kinds for value in values(self.kinds[kind]))

    def cpu(self, shares: Shares) -> dict[str, float]:
        """CPU seconds by phase. Finding and the loop are measured. The time of conversion is
        divided in proportion to its steps' times in a conversion that runs alone."""
        served = self.served
        whole = served.turning
        if (converting := 1 - shares.send) > 0:  # without sending, which is measured
            whole += served.converting / converting
        return {
            "find and measure": served.finding,
            "read": whole * shares.read,
            "decompress": whole * shares.decompress,
            "convert": whole * shares.convert,
            "compress": whole * shares.compress,
            "send": served.sending + served.turning * shares.send,
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
            "records_per_cpu_second": round(records_per_cpu_second(self)),
            "cpu_seconds": self.served.cpu,
            "cpu_seconds_by_phase": self.cpu(shares),
            "clients": {
                group.kind: self._kind_to_json(group, self.kinds[group.kind])
                for group in self.groups
            },
        }

    def timeline_to_json(self) -> list[list[float]]:
        line = thinned(self.timeline, _JSON_POINTS)
        return [[round(seconds, 4), size] for seconds, size in line]

    def _kind_to_json(self, group: Group, stats: ClientStats) -> dict[str, Any]:
        return {
            "clients": group.count,
            "fetch_version": group.version_in(self.mode),
            "answers": stats.responses,
            "wrong_answers": stats.wrong,
            "bytes_per_second": round(stats.size / self.seconds),
            "records_per_second": round(stats.records / self.seconds),
            "first_byte_seconds": _percentiles(stats.first_bytes),
            "fetch_seconds": _percentiles(stats.latencies),
        }


@dataclass(slots=True)
class LoadResult:
    """All rounds of one simulation. `alone`: current clients without the old ones."""

    name: str
    options: LoadOptions
    modes: Mapping[Mode, Rounds[LoadRun]]
    alone: Rounds[LoadRun] | None
    shares: Shares
    planned: int  # responses that were made and compared before the measurement

    @property
    def backend(self) -> str:
        return next(iter(self.modes.values())).each[0].served.backend

    @property
    def named(self) -> dict[str, Rounds[LoadRun]]:
        """All rounds by name, first those of current clients alone, if measured."""
        modes = {str(mode): rounds for mode, rounds in self.modes.items()}
        return modes if self.alone is None else {ALONE: self.alone, **modes}

    @property
    def responses(self) -> int:
        return sum(rounds.total(lambda run: run.responses) for rounds in self.named.values())

    @property
    def costs(self) -> list[Cost]:
        options = self.options
        of_one = min(options.max_bytes, options.workload.size // options.partitions)
        size, is_compressed = options.per_fetch * of_one, options.workload.codec != "none"
        return costs(self.modes, are_large=not is_made_at_once(size, is_compressed=is_compressed))

    def unfairness(self, mode: Mode, percent: float = 99) -> float | None:
        """The ratio of a latency of current clients beside old ones to their latency alone. None
        unless there are both kinds."""
        if self.alone is None:
            return None
        beside, alone = (
            rounds.middle(lambda run: run.todays(percent))
            for rounds in (self.modes[mode], self.alone)
        )
        return beside / alone if alone > 0 else None

    def failures(self) -> list[str]:
        """One line for each failed check."""
        found = []
        for name, rounds in self.named.items():
            wrong: Counter[str] = Counter()
            for run in rounds.each:
                wrong.update({kind: stats.wrong for kind, stats in run.kinds.items()})
            whose = f"{TODAYS} alone" if name == ALONE else name
            found += [
                f"{whose}: other bytes than planned reached clients of {kind}: "
                + format_count(count, "response")
                for kind, count in wrong.items()
                if count
            ]
        return found

    def to_json(self) -> dict[str, Any]:
        fairness = {mode: self.unfairness(mode) for mode in self.modes}
        return {
            "name": self.name,
            "workload": str(self.options.workload),
            "partitions": self.options.partitions,
            "planned_answers": self.planned,
            "modes": {mode: self._rounds_to_json(rounds) for mode, rounds in self.modes.items()},
            "lazy_beside_eager": [cost.to_json() for cost in self.costs],
            "todays_clients_alone": self._rounds_to_json(self.alone) if self.alone else None,
            "p99_of_todays_clients_beside_old_ones_by_alone": fairness if self.alone else None,
            "failures": self.failures(),
        }

    def _rounds_to_json(self, rounds: Rounds[LoadRun]) -> dict[str, Any]:
        """The medians of the rounds, then the rounds."""
        each = [run.to_json(self.shares) for run in rounds.each]
        line = rounds.typical(lambda run: run.peak).timeline_to_json()
        return {**merged(each), "memory_over_time": line, "rounds": each}


def _percentiles(values: list[float]) -> dict[str, float]:
    return {f"p{percent}": percentile(values, percent) for percent in PERCENTILES}
