"""A job to an object store, in a process that kills itself as it comes to write an object.

    python -m tests.downconvert.spark.dying_job export|convert SOURCE TARGET NUMBER

dies in place of the write with that number, from 0 on; with one that is never reached the job ends,
and prints what was written. Tasks run in this process, without Spark."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.jobs import progress
from downconvert.spark.jobs.convert import convert, convert_stored, stored_manifest
from downconvert.spark.jobs.convert.rewrite import Settings
from downconvert.spark.jobs.export import export, export_stored, export_stored_notes
from downconvert.spark.stores import stores

from .in_process import SESSION, without_spark

MODULES: Any = (convert_stored, stored_manifest, export_stored, export_stored_notes)


def main(job: str, source: str, target: str, number: int) -> None:
    whole = stores.write
    written: list[str] = []

    def write(uri: str, data: bytes | Path) -> None:
        if len(written) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        written.append(uri)
        whole(uri, data)

    for module in MODULES:
        module.write = write
    without_spark(pytest.MonkeyPatch())
    if job == "export":
        export.run(SESSION, [source], target, step=progress.no_step)
    else:
        convert.run(SESSION, [source], target, Settings(to_magic=1))
    print(len(written))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
