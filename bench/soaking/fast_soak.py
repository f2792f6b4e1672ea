"""Does anything grow with time alone: descriptors, memory, entries of any table, lines of the log?

A `serve` and a gateway run at a thousand times real speed, on simulated clocks. Clients with new
names, topics, groups, failed logins, failing brokers and full disks come and go. Every dict, list,
set and queue that can be reached from the server, the gateway or one of their caches is a table,
even in other packages. No table may be larger in the last third of the run than in the second.

    python -m bench.soak --fast --minutes 1440 --seed 1 --plot fast-soak.svg

Not here: the events (fast_world.py), a real server at real speed (soak.py)."""

import gc
import logging
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from downconvert.protocol.known_requests import COUNT_MAX
from downconvert.serving.process_figures import resident_bytes
from downconvert.serving.series import CLIENTS_MAX, TOPICS_MAX
from records.units import KiB, MiB

from .fast_world import STEP, World, world
from .soaked import thirds

SAMPLES: Final = 60
OURS: Final = ("downconvert", "records", "prometheus_client")
TABLES: Final = (dict, list, set, frozenset, deque)
SHARE_MAX: Final = 1.15
SLACK: Final = {"descriptors": 8, "memory": 8 * MiB, "lines": 1.0}  # in addition to SHARE_MAX
TABLE_SLACK: Final = 60  # entries
# The code bounds these tables, and they fill up only within days. So they may grow up to the bound.
BOUNDS: Final = {
    "KnownRequests._known": COUNT_MAX,
    "BoundedLabels._known": 2 * TOPICS_MAX + CLIENTS_MAX,
    "Counter._metrics": 4 * TOPICS_MAX,
    "ConversionCache._chunks": 16 * KiB,  # 16 MiB in all, and none is smaller than a KiB here
}
# Lines are few: one for each kind of event within a step.
LINES_MAX: Final = 5.0  # a second of the world


@dataclass(slots=True)
class Sample:
    """One moment of the world. `lines`: of the log, in each second since the last sample."""

    seconds: float
    descriptors: int
    memory: int  # bytes, resident
    lines: float
    tables: Mapping[str, int]  # entries, by the class and the attribute


@dataclass(slots=True)
class FastSoak:
    """Samples, the seconds of the world for each real second, and the number of requests."""

    samples: list[Sample] = field(default_factory=list)
    speed: float = 0.0
    requests: int = 0


class Lines(logging.Handler):
    """Counts the lines of a log, and discards them."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.count = 0

    def emit(self, _: logging.LogRecord) -> None:
        self.count += 1


def soak(directory: Path, seconds: float, seed: int, samples: int = SAMPLES) -> FastSoak:
    """Runs this many seconds of the world."""
    found, lines = FastSoak(), Lines()
    log = logging.getLogger("downconvert")
    level, propagates = log.level, log.propagate
    log.addHandler(lines)
    log.setLevel(logging.INFO)
    log.propagate = False
    began, every = time.perf_counter(), max(seconds / samples, STEP)
    try:
        with world(directory, seed) as made:
            next_sample, last = every, 0.0
            while made.now < seconds:
                made.step()
                if made.now >= next_sample:
                    written, lines.count = lines.count, 0
                    found.samples.append(sample(made, written / (made.now - last)))
                    next_sample, last = made.now + every, made.now
            found.speed = made.now / (time.perf_counter() - began)
            found.requests = made.requests
    finally:
        log.removeHandler(lines)
        log.setLevel(level)
        log.propagate = propagates
    return found


def sample(made: World, lines: float) -> Sample:
    gc.collect()
    return Sample(
        seconds=made.now,
        descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
        memory=resident_bytes(),
        lines=lines,
        tables=tables(made.broker, made.gateway, made.maintenance, made.room),
    )


def tables(*roots: object) -> Counter[str]:
    """The entries of every table that can be reached from here, by its place."""
    found, seen = Counter[str](), set[int]()
    waiting: list[tuple[str, object]] = [(type(root).__name__, root) for root in roots]
    while waiting:
        name, one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, TABLES):
            found[name] += len(one)
            inside = [*one.keys(), *one.values()] if isinstance(one, dict) else list(one)
            waiting += [(name, each) for each in inside if _has_parts(each)]
        elif isinstance(one, tuple):
            waiting += [(name, each) for each in one if _has_parts(each)]
        elif type(one).__module__.startswith(OURS):
            kind = type(one).__name__
            waiting += [(f"{kind}.{part}", each) for part, each in _parts(one)]
    return found


def _has_parts(one: object) -> bool:
    return isinstance(one, (*TABLES, tuple)) or type(one).__module__.startswith(OURS)


def _parts(one: object) -> Iterator[tuple[str, Any]]:
    own = getattr(one, "__dict__", {})
    slots = (name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ()))
    for name in (*own, *slots):
        part = own[name] if name in own else getattr(one, name, None)
        if part is not None and _has_parts(part):
            yield name, part


def growth(found: FastSoak) -> list[str]:
    """The figures that were larger in the last third than in the second, in words."""
    figures: dict[str, list[tuple[float, float]]] = {}
    for one in found.samples:
        named = {"descriptors": one.descriptors, "memory": one.memory, "lines": one.lines}
        for name, value in (*named.items(), *one.tables.items()):
            figures.setdefault(name, []).append((one.seconds, value))
    problems = []
    for name, points in sorted(figures.items()):
        middle, last = thirds(points)
        bound = BOUNDS.get(name, 0.0)
        if last > max(SHARE_MAX * middle + SLACK.get(name, TABLE_SLACK), bound):
            problems.append(f"{name}: {middle:,.1f} in the second third, {last:,.1f} in the last")
    lines = median(one.lines for one in found.samples)
    if lines > LINES_MAX:
        problems.append(f"{lines:.1f} lines of the log a second")
    return problems


def report(found: FastSoak) -> Iterator[str]:
    """The figures at the beginning, in the middle and at the end, one a line."""
    first, middle, last = (found.samples[at] for at in (0, len(found.samples) // 2, -1))
    hours = last.seconds / 3600
    yield f"{hours:.1f} hours, {found.speed:,.0f} times as fast; {found.requests:,} requests"
    yield f"{'':46}{'begin':>12}{'middle':>12}{'end':>12}"
    for name in ("descriptors", "memory", "lines"):
        values = (getattr(one, name) for one in (first, middle, last))
        yield f"{name:46}" + "".join(f"{value:12,.1f}" for value in values)
    largest = sorted(last.tables, key=lambda name: -last.tables[name])[:25]
    for name in largest:
        values = (one.tables.get(name, 0) for one in (first, middle, last))
        yield f"{name[:45]:46}" + "".join(f"{value:12,}" for value in values)


def plot(found: FastSoak, path: Path) -> None:
    """Descriptors, memory, tables and lines over time."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "soak", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(9, 5.5), sharex=True, constrained_layout=True)
    hours = [one.seconds / 3600 for one in found.samples]
    names = sorted(found.samples[-1].tables, key=lambda name: -found.samples[-1].tables[name])[:8]
    (memory, descriptors), (entries, lines) = axes
    memory.plot(hours, [one.memory / MiB for one in found.samples])
    memory.set_title("resident memory, MiB", fontsize=10)
    descriptors.plot(hours, [one.descriptors for one in found.samples])
    descriptors.set_title("descriptors", fontsize=10)
    for name in names:
        entries.plot(hours, [one.tables.get(name, 0) for one in found.samples], label=name)
    entries.set_title("entries of the largest tables", fontsize=10)
    entries.legend(fontsize=6)
    lines.plot(hours, [one.lines for one in found.samples])
    lines.set_title("lines of the log, a second", fontsize=10)
    for one in axes.flat:
        one.set_ylim(bottom=0)
        one.set_xlim(left=0)
        one.grid(color="#e3e7ee")
    for one in (entries, lines):
        one.set_xlabel("hours")
    figure.savefig(path, metadata={"Date": None})
