"""The measurements of a soak: figures that grew, and a picture.

Not here: the run (soak.py)."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import Final

from records.units import MiB

# Allowed growth from the second third to the last: pages of the allocator, segments that will be
# removed soon, other load during a start.
SHARE_MAX: Final = 1.1
SLACK: Final = {"anonymous": 2 * MiB, "files": 12, "log_size": 2 * MiB, "log_files": 24}
START_SLACK: Final = 0.3  # seconds of CPU


@dataclass(frozen=True, slots=True)
class Sample:
    """The server at one moment. Sizes are in bytes. `resident` and `anonymous` are memory."""

    seconds: float
    resident: int
    anonymous: int
    files: int
    threads: int
    log_size: int
    log_files: int
    records: int  # acknowledged since the beginning
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Start:
    """The start of another server on a copy of the directory. cpu_seconds: until it was ready."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Soaked:
    """The result of a soak. counted: the server's counters at the end, by name."""

    samples: list[Sample]
    starts: list[Start]
    counted: dict[str, float]


def growth(soaked: Soaked) -> list[str]:
    """The figures that were larger in the last third than in the second, in words."""
    found = []
    for name, slack in SLACK.items():
        middle, last = thirds([(one.seconds, getattr(one, name)) for one in soaked.samples])
        if last > SHARE_MAX * middle + slack:
            found.append(f"{name}: {middle:,.0f} in the second third, {last:,.0f} in the last")
    middle, last = thirds([(one.seconds, one.cpu_seconds) for one in soaked.starts])
    if last > SHARE_MAX * middle + START_SLACK:
        found.append(f"a start: {middle:.2f} s of CPU in the second third, {last:.2f} in the last")
    return found


def thirds(points: list[tuple[float, float]]) -> tuple[float, float]:
    """The medians of the second and of the last third."""
    third = max(len(points) // 3, 1)
    middle, last = points[third : 2 * third] or points, points[2 * third :] or points
    return median(value for _, value in middle), median(value for _, value in last)


def plot(soaked: Soaked, path: Path) -> None:
    """Memory, files, log and starts over time."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "soak", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(9, 5), sharex=True, constrained_layout=True)
    (memory, files), (log, starts) = axes
    minutes = [one.seconds / 60 for one in soaked.samples]
    memory.plot(minutes, [one.resident / MiB for one in soaked.samples], label="resident")
    memory.plot(minutes, [one.anonymous / MiB for one in soaked.samples], label="its own")
    memory.set_title("memory of the server, MiB", fontsize=10)
    files.plot(minutes, [one.files for one in soaked.samples], label="open files and sockets")
    files.plot(minutes, [one.threads for one in soaked.samples], label="threads")
    files.plot(minutes, [one.log_files for one in soaked.samples], label="files of the log")
    files.set_title("files", fontsize=10)
    log.plot(minutes, [one.log_size / MiB for one in soaked.samples], label="log, MiB")
    log.plot(minutes, [one.records / 1e5 for one in soaked.samples], "k:", label="100,000 records")
    log.set_title("the log on disk, and what was written", fontsize=10)
    starts.plot(
        [one.seconds / 60 for one in soaked.starts],
        [one.cpu_seconds for one in soaked.starts],
        "o-",
        label="CPU seconds until ready",
    )
    starts.set_title("a start after a crash at this moment", fontsize=10)
    for one in (memory, files, log, starts):
        one.set_ylim(bottom=0)
        one.set_xlim(left=0)
        one.grid(color="#e3e7ee")
        one.legend(fontsize=8)
    for one in (log, starts):
        one.set_xlabel("minutes")
    figure.savefig(path, metadata={"Date": None})


def table(samples: list[Sample], count: int = 12) -> Iterator[str]:
    """Some of the samples, one a line."""
    names = [field.name for field in fields(Sample)]
    yield " ".join(f"{name:>12}" for name in names)
    for one in samples[:: max(len(samples) // count, 1)]:
        yield " ".join(f"{value:12,.0f}" for value in asdict(one).values())
