"""Changes generated trees between the plan of a query and its tasks. A segment is deleted, renamed
as by a broker that is about to delete it, cut, or replaced by a longer one. The query must fail or,
with `failOnDataLoss=false`, warn and read the rest.

Not here: logs that change between queries (tree_history.py)."""

import os
import random
import warnings
from pathlib import Path
from typing import Any, Final

from downconvert.spark.errors import DataLossError
from tests.downconvert.spark.reading import reader

from .tree_model import NAME, Tree

CHANGES: Final = ("deleted", "renamed", "cut", "replaced", "grown")


def changed_reads(tree: Tree, path: Path, place: str, found: list[int]) -> str | None:
    """Returns the first difference; None: there is none. `path`: a scratch directory with the tree
    in `logs`. `place`: the path or URI by which readers find it. `found`: the offsets that a query
    reads."""
    chance = random.Random(f"changes {tree.seed}")
    files = sorted((path / "logs").glob(f"**/{NAME}/*.log"))
    if not files:
        return None
    file, what = chance.choice(files), chance.choice(CHANGES)
    options = {"failOnDataLoss": chance.choice(["true", "false"]), "mode": "PERMISSIVE"}
    source = reader(place, **options)
    tasks = source.partitions()
    data, status = file.read_bytes(), file.stat()
    other = file.with_name(f"{file.name}.deleted")
    try:
        _change(file, what, chance)
        with warnings.catch_warnings(record=True) as notices:
            warnings.simplefilter("always")
            read = [row for task in tasks for batch in source.read(task) for row in _offsets(batch)]
    except DataLossError as error:
        is_right = options["failOnDataLoss"] == "true" and file.name in str(error)
        return None if is_right else f"{file.name} is {what}: {options} fails with {error}"
    finally:
        other.unlink(missing_ok=True)
        file.unlink(missing_ok=True)
        file.write_bytes(data)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    got = [at for at, report in read if report is None]
    left = sorted(tree.had() & set(found) - set(got))  # a cleaner may have removed other ones
    more = sorted(set(got) - set(found))
    named = [report for _, report in read if report is not None]
    silent = [at for at in left if not any(_covers(one, at) for one in named)]
    if silent and (options["failOnDataLoss"] == "true" or not notices):
        return f"{file.name} is {what}: {silent} are left out without a word"
    if more and not tree.is_hurt and not any(copy.cleaned for copy in tree.copies):
        return f"{file.name} is {what}: {more} are read besides"
    return None if len(got) == len(set(got)) else f"{file.name} is {what}: records come twice"


def _change(file: Path, what: str, chance: random.Random) -> None:
    data = file.read_bytes()
    if what == "deleted":
        file.unlink()
    elif what == "renamed":
        file.rename(file.with_name(f"{file.name}.deleted"))
    elif what == "cut":
        os.truncate(file, chance.randrange(len(data)) if data else 0)
    elif what == "replaced":
        new = file.with_name(f"{file.name}.new")  # the tree may have a .swap of its own
        new.write_bytes(data + chance.randbytes(50))
        new.rename(file)
    else:
        with file.open("ab") as log:
            log.write(chance.randbytes(50))


def _offsets(batch: Any) -> list[tuple[int, Any]]:
    offsets, reports = batch.column("offset").to_pylist(), batch.column("_corrupt").to_pylist()
    return list(zip(offsets, reports, strict=True))


def _covers(report: Any, offset: int) -> bool:
    start, end = report["startOffset"], report["endOffset"]
    return (start is None or start <= offset) and (end is None or offset < end)
