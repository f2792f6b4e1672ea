"""What a table's metadata says of the offsets that are in it.

A table's commit takes the place of an export's note: the same text, in the metadata of the commit
that adds the files. So there is no moment at which one is there without the other, and files of a
run that died before its commit are in no version of the table.

Not here: what the text says (export_manifest.py), the formats (export_delta.py,
export_iceberg.py)."""

from dataclasses import replace
from typing import Final

from .export_manifest import Exported, parse
from .jobs import JobError

PROPERTY: Final = "kafka-segments.exported"


def text_of(exported: Exported) -> str:
    """What a commit says; which files there are, the table itself knows."""
    return replace(exported, files=set()).to_json()


def exported_of(text: str, isolation: str, table: str) -> Exported:
    """JobError: it cannot be read, or the table was filled with the other isolation level."""
    try:
        found = parse(text.encode())
    except ValueError as error:
        raise JobError(f"{table}: its property {PROPERTY} is damaged: {error}") from error
    if found.isolation != isolation:
        raise JobError(
            f"{table} has been exported with {found.isolation}, and this is {isolation}: name "
            "another table"
        )
    return found


def foreign(table: str) -> JobError:
    """Of a table that is for something else."""
    return JobError(f"{table} is a table that no export has made: name another one")


def uncertain(table: str, error: Exception) -> JobError:
    """Of a commit that failed otherwise: it may have come through."""
    return JobError(
        f"{table}: {type(error).__name__}: {error}; run it again, which goes on after what was "
        "committed"
    )


def outpaced(table: str, error: Exception) -> JobError:
    """Of a commit that came too late."""
    return JobError(
        f"{table}: another export was committed meanwhile, and this one was not; run it again "
        f"({error})"
    )
