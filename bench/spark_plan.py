"""What would the jobs on Spark take for 100 TB?

This measures a task's CPU time and memory on segments of several shapes, each in a process of its
own. It also measures Spark's own cost of a task, in time and in the driver's memory, and the
driver's cost of finding segments. It computes the plan from these, and prints it as the tables of
docs/spark-100tb.md.

    python -m bench.spark_plan
    python -m bench.spark_plan --full      also 1 GB segments, and bombs of 900 MB"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final

import click

from downconvert.spark.jobs.audit.audit_segment import Task as AuditTask
from downconvert.spark.jobs.audit.audit_segment import audit_segments
from downconvert.spark.jobs.convert.convert_segment import Task, convert_segment
from downconvert.spark.jobs.convert.rewrite import Settings
from downconvert.spark.logs.trees import find_partitions
from records import Codec
from records.units import MiB

from .measuring.bombs import bomb
from .measuring.segments import SHAPES
from .measuring.segments import segment as shaped
from .servers.processes import status

NAME: Final = "00000000000000000000.log"
TOTAL: Final = 100 * 10**12  # bytes
SEGMENT: Final = 1024 * MiB  # segment.bytes, unless told otherwise
CORES: Final = 200
JOBS: Final = ("audit", "to v1", "to v2", "old to v2")
ENTRY_SIZE: Final = 900  # bytes of a line of the manifest, about
MEMORY_MAX: Final = 256 * MiB


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of one task. Sizes are bytes. `peak` is that of the whole process."""

    shape: str
    job: str
    size: int
    cpu_seconds: float
    peak: int
    outcome: str

    @property
    def seconds_a_gib(self) -> float:
        return self.cpu_seconds * SEGMENT / self.size


def spent(shape: str, job: str, directory: Path) -> Spent:
    """Does a task in this process."""
    path = directory / NAME
    if job == "old to v2":  # its input is made before the measurement
        directory = converted(directory, directory.with_name(f"{directory.name}-old"), 1)
        path = directory / NAME
    Path("/proc/self/clear_refs").write_text("5")
    started = process_time()
    outcome = ""
    if job == "audit":
        rows = list(audit_segments(AuditTask("t", 0, str(directory), (0,))))
        outcome = "; ".join(damage for row in rows for damage in row["damages"])
    else:
        target = directory.with_name(f"{directory.name}-{job.replace(' ', '-')}")
        entry = convert_segment(task(directory, target, 1 if job == "to v1" else 2), attempt="1")
        outcome = entry.error or entry.verified
    return Spent(
        shape, job, path.stat().st_size, process_time() - started, status("VmHWM"), outcome
    )


def converted(source: Path, target: Path, to_magic: int) -> Path:
    convert_segment(task(source, target, to_magic), attempt="0")
    return target


def task(source: Path, target: Path, to_magic: int) -> Task:
    return Task(
        topic="t",
        partition=0,
        base_offset=0,
        source=str(source),
        target=str(target),
        settings=Settings(to_magic=to_magic),
    )


def cases(scratch: Path, size: int, *, full: bool) -> Iterator[tuple[str, str, Path]]:
    """The shapes and the jobs that are run on them."""
    for name in ("none-100", "none-1000", "gzip-json", "lz4-100", "zstd-100"):
        if name not in SHAPES:
            continue
        directory = scratch / f"{name}-0"
        directory.mkdir()
        made = shaped(SHAPES[name], size=size, directory=scratch)
        made.replace(directory / NAME)
        for job in JOBS:
            yield name, job, directory
    if not full:
        return
    directory = scratch / "large-0"
    directory.mkdir()
    once = (scratch / "none-1000-0" / NAME).read_bytes()
    with (directory / NAME).open("wb") as file:
        while file.tell() < 10**9:  # offsets go back, which does not matter to tasks
            file.write(once)
    yield "1 GB segment", "to v1", directory
    yield "1 GB segment", "to v2", directory
    for codec in (Codec.NONE, Codec.GZIP, Codec.ZSTD):
        for records in (1, 900):
            directory = scratch / f"{codec.name}-{records}-0"
            directory.mkdir()
            bomb(directory / NAME, codec, records=records, value_size=900_000_000 // records)
            for job in ("audit", "to v1", "to v2"):
                yield f"900 MB in {codec.name.lower()}, {records} records", job, directory


def in_child(shape: str, job: str, directory: Path) -> Spent:
    response = subprocess.run(
        (sys.executable, "-m", "bench.spark_plan", "--child", shape, job, str(directory)),
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Spent(**json.loads(response.stdout))


# --- Spark and its driver


@dataclass(frozen=True, slots=True)
class Overhead:
    """The cost of each task besides its work. `driver_bytes` is JVM heap that is not freed."""

    cpu_seconds: float
    driver_bytes: float
    find_seconds: float  # the driver's, for each segment
    find_bytes: float


def overhead(tasks: int) -> Overhead:
    """Runs two numbers of tasks that do nothing. The difference of the two runs is the tasks'
    cost."""
    import pyarrow as pa

    from downconvert.spark.jobs.jobs import run_tasks
    from downconvert.spark.jobs.session import open_session

    schema = pa.schema([("n", pa.int64())])
    with TemporaryDirectory() as scratch, open_session("plan", "local[1]") as session:
        runtime = session.sparkContext._jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]

        def run(count: int) -> tuple[float, int]:
            some = [task(Path("/kafka/topic-000"), Path("/out/topic-000"), 2)] * count
            started = perf_counter()
            run_tasks(session, some, nothing, schema).count()
            seconds = perf_counter() - started
            runtime.gc()
            return seconds, runtime.totalMemory() - runtime.freeMemory()

        run(tasks // 10)
        few, heap_few = run(tasks // 10)
        many, heap_many = run(tasks)
        count = tasks - tasks // 10
        seconds, size = find(Path(scratch))
        heap = max(0, heap_many - heap_few)
        return Overhead((many - few) / count, heap / count, seconds, size)


def nothing(_task: Task) -> Iterator[dict[str, int]]:
    yield {"n": 1}


def find(scratch: Path, segments: int = 2000) -> tuple[float, float]:
    """Seconds and bytes for each segment that the driver finds."""
    import tracemalloc

    directory = scratch / "topic-0"
    directory.mkdir()
    for number in range(segments):
        (directory / f"{number:020}.log").touch()
    started = perf_counter()
    find_partitions([str(scratch)])
    seconds = perf_counter() - started
    tracemalloc.start()
    kept = find_partitions([str(scratch)])
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept[0].segments) == segments
    return seconds / segments, size / segments


# --- the plan


def tables(measured: list[Spent], cost: Overhead) -> Iterator[str]:
    yield "| segment | job | CPU s a GiB | MB/s a core | peak of the process | |"
    yield "|---|---|---|---|---|---|"
    for one in measured:
        rate = one.size / one.cpu_seconds / 1e6
        yield (
            f"| {one.shape} | {one.job} | {one.seconds_a_gib:.1f} | {rate:,.0f} | "
            f"{one.peak / MiB:.0f} MiB | {one.outcome} |"
        )
    tasks = TOTAL // SEGMENT
    yield ""
    yield f"| 100 TB, {tasks:,} segments of 1 GiB, {CORES} cores | CPU hours | hours |"
    yield "|---|---|---|"
    for job in JOBS:
        for shape in sorted({one.shape for one in measured if one.shape in SHAPES}):
            found = [one for one in measured if (one.shape, one.job) == (shape, job)]
            for one in found:
                hours = tasks * (one.seconds_a_gib + cost.cpu_seconds) / 3600
                yield f"| {job}, all of it {shape} | {hours:,.0f} | {hours / CORES:,.1f} |"
    yield ""
    yield "| for that many segments | |"
    yield "|---|---|"
    yield from (f"| {what} | {figure} |" for what, figure in for_all(tasks, cost))


def for_all(tasks: int, cost: Overhead) -> Iterator[tuple[str, str]]:
    """The cost of this many tasks, besides their work."""
    hours = tasks * cost.cpu_seconds / 3600
    yield "Spark's own cost of a task", f"{1e3 * cost.cpu_seconds:.0f} ms: {hours:,.1f} core hours"
    for what, size in (("JVM heap", cost.driver_bytes), ("Python", cost.find_bytes)):
        yield f"driver's {what}", f"{size:,.0f} B for each: {tasks * size / MiB:,.0f} MiB"
    found = tasks * cost.find_seconds
    yield "finding them, on a local disk", f"{1e6 * cost.find_seconds:.0f} µs each: {found:,.0f} s"
    yield "files that convert writes", f"{4 * tasks:,}: log, two indexes, note"
    manifest = tasks * ENTRY_SIZE / MiB
    yield "manifest", f"{manifest:,.0f} MiB, a line at a time"


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--size", default=64, help="MiB of each segment, before compression.")
@click.option("--tasks", default=2000, help="Tasks that do nothing, to see what they cost.")
@click.option("--full", is_flag=True, help="Also what is large: 1 GB segments, bombs of 900 MB.")
@click.option("--child", nargs=3, hidden=True)
def main(size: int, tasks: int, full: bool, child: tuple[str, str, str] | None) -> None:
    if child is not None:
        click.echo(json.dumps(asdict(spent(child[0], child[1], Path(child[2])))))
        return
    measured = []
    with TemporaryDirectory() as scratch:
        for case in cases(Path(scratch), size * MiB, full=full):
            one = in_child(*case)
            click.echo(f"{one.shape}, {one.job}: {one.cpu_seconds:.1f} s", err=True)
            measured.append(one)
    for line in tables(measured, overhead(tasks)):
        click.echo(line)
    heavy = [one for one in measured if one.peak > MEMORY_MAX]
    if heavy:
        raise SystemExit(f"more than 256 MiB: {', '.join(one.shape for one in heavy)}")


if __name__ == "__main__":
    main()
