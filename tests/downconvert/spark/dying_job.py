"""A job to an object store, in a process that kills itself as it comes to write an object.

    python -m tests.downconvert.spark.dying_job export|convert SOURCE TARGET NUMBER

dies in place of the write with that number, from 0 on; with one that is never reached the job ends,
and prints what was written. Tasks run in this process, without Spark."""

import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from downconvert.spark import (
    convert,
    convert_stored,
    export,
    export_stored,
    jobs,
    stored_manifest,
    stores,
)
from downconvert.spark.rewrite import Settings

MODULES: Any = (convert_stored, stored_manifest, export_stored)


def main(job: str, source: str, target: str, number: int) -> None:
    whole = stores.write
    written: list[str] = []

    def write(uri: str, data: bytes | Path) -> None:
        if len(written) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        written.append(uri)
        whole(uri, data)

    def in_process(_session: Any, tasks: Any, work: Any, _schema: Any) -> Any:
        rows = [SimpleNamespace(**row) for task in tasks for row in work(task)]
        return SimpleNamespace(collect=lambda: rows)

    for module in MODULES:
        module.write = write
    modules: Any = (convert, export_stored)
    for module in modules:
        module.run_tasks = in_process
        module.watched = lambda *_: open(os.devnull)  # noqa: PTH123 - any context
    changed: Any = (convert, export)
    changed[0]._summary = lambda found: found.collect()
    changed[1].archive = lambda *_: None
    if job == "export":
        export.export(changed[1], [source], target, step=jobs.no_step)
    else:
        convert.run(changed[1], [source], target, Settings(to_magic=1))
    print(len(written))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
