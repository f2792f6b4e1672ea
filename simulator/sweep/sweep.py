"""The simulator over a grid of chunk sizes, codecs, record sizes and numbers of consumers.

Each task generates one workload and measures all points of the grid that use it. Tasks that run
side by side on one machine distort each other: give each a machine, or run one at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from downconvert.spark.jobs.jobs import Json, run_tasks, watched
from downconvert.spark.jobs.progress import Step, no_step
from records.units import KiB, MiB, plain_size
from simulator import Mode, Options, Workload, generate, simulate

RESULT: Final = pa.schema(
    [
        ("workload", pa.string()),
        ("codec", pa.string()),
        ("record_size", pa.int64()),
        ("chunk_size", pa.int64()),
        ("consumers", pa.int32()),
        ("mode", pa.string()),
        ("log_bytes", pa.int64()),
        ("peak_bytes", pa.int64()),  # of the sender above idle
        ("records_per_second", pa.float64()),
        ("bytes_per_second", pa.float64()),
        ("cpu_seconds", pa.float64()),
        ("first_byte_p99_seconds", pa.float64()),
        ("fetch_p99_seconds", pa.float64()),
        ("failures", pa.list_(pa.string())),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The values of each option. All combinations are measured. Sizes are bytes.

    size: of each workload's keys and values. modes: lazy, eager, zero-copy."""

    codecs: Sequence[str] = ("none", "gzip")
    record_sizes: Sequence[int] = (100, 1000)
    chunk_sizes: Sequence[int] = (4 * KiB, 16 * KiB, 128 * KiB)
    consumers: Sequence[int] = (1, 10)
    modes: Sequence[Mode] = ("lazy", "eager")
    size: int = 8 * MiB
    to_magic: int = 1

    def __post_init__(self) -> None:
        for options in self.options():  # refuses wrong options before the measurement
            assert options
        for workload in self.workloads():
            assert workload

    def workloads(self) -> list[Workload]:
        return [
            Workload(codec=codec, record=(record, record), size=self.size)
            for codec, record in product(self.codecs, self.record_sizes)
        ]

    def options(self) -> list[tuple[int, Options]]:
        """The options of all points of one workload, each with its chunk size."""
        return [
            (
                chunk,
                Options(
                    to_magic=self.to_magic,
                    consumers=consumers,
                    slow=0,
                    policy=f"default,chunk_size={plain_size(chunk)}",
                    modes=tuple(self.modes),
                    rounds=1,  # there are many points, so each is measured once
                ),
            )
            for chunk, consumers in product(self.chunk_sizes, self.consumers)
        ]


@dataclass(frozen=True, slots=True)
class Task:
    """One workload, and all points of the grid that use it."""

    workload: Workload
    options: tuple[tuple[int, Options], ...]

    def __str__(self) -> str:
        return str(self.workload)


def sweep(session: SparkSession, grid: Grid, target: str, *, step: Step = no_step) -> DataFrame:
    """Measures the grid, and replaces a Parquet directory by the results. Returns its content: a
    row for each point and mode, with the columns of RESULT."""
    tasks = [Task(workload, tuple(grid.options())) for workload in grid.workloads()]
    frame = run_tasks(session, tasks, measure, RESULT)
    with watched(session, "sweep", step):
        frame.write.mode("overwrite").parquet(target)
    return session.read.parquet(target)


def measure(task: Task) -> Iterator[Json]:
    """The rows of one workload. SimulationError: it cannot be served."""
    with TemporaryDirectory(prefix="sweep-") as directory:
        files = generate(task.workload, Path(directory))
        for chunk_size, options in task.options:
            result = simulate(str(task.workload), files, options)
            for mode, measured in result.modes.items():
                run = measured.each[0]
                yield {
                    "workload": str(task.workload),
                    "codec": task.workload.codec,
                    "record_size": task.workload.record[0],
                    "chunk_size": chunk_size,
                    "consumers": options.consumers,
                    "mode": mode,
                    "log_bytes": result.size,
                    "peak_bytes": run.peak,
                    "records_per_second": run.records_per_second,
                    "bytes_per_second": run.bytes_per_second,
                    "cpu_seconds": run.sent.cpu_seconds,
                    "first_byte_p99_seconds": run.first_byte(99),
                    "fetch_p99_seconds": run.last_byte(99),
                    "failures": result.failures(),
                }
