"""Tasks for tests of the conversion of segments, and the files that they make."""

from pathlib import Path

from downconvert.spark.jobs.convert.convert_segment import Task
from downconvert.spark.jobs.convert.rewrite import Settings

NAME = "00000000000000000000.log"


def task(source: Path, to_magic: int = 1, base_offset: int = 0, **options: object) -> Task:
    return Task(
        topic="topic",
        partition=0,
        base_offset=base_offset,
        source=str(source),
        target=str(source.with_name("out-0")),
        settings=Settings(to_magic=to_magic, **options),  # type: ignore[arg-type]
    )


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}
