"""Offsets of an export in a table's metadata.

A table's commit takes the place of an export's note. The metadata of the commit that adds the files
has the same text, so files and note become valid together. Files of a run that was killed before
its commit are in no version of the table.

Not here: the text (export_manifest.py), the formats (export_delta.py, export_iceberg.py)."""

from dataclasses import replace
from typing import Final

from downconvert.spark.jobs.jobs import JobError

from .export_manifest import Exported, parse
from .export_unnoted import Unnoted

PROPERTY: Final = "kafka-segments.exported"


class Table:
    """The common part of tables: readers see only the files of a table's commits."""

    def begin(self, _run_id: str) -> None:
        """Does nothing, like `remove_lost`."""

    def remove_lost(self) -> None:
        """Does nothing: files of killed runs are in no version of the table, so its own maintenance
        removes them (VACUUM in Delta, the removal of orphan files in Iceberg)."""

    def unnoted(self, _exported: Exported) -> Unnoted:
        """No files."""
        return Unnoted((), lambda _: b"")


def text_of(exported: Exported) -> str:
    """The text for a commit, without files: the table itself lists them."""
    return replace(exported, files=set()).to_json()


def exported_of(text: str, isolation: str, table: str) -> Exported:
    """Parses the text of a commit. JobError: it cannot be read, or the table was filled with the
    other isolation level."""
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
    """The error for a table that another program made."""
    return JobError(f"{table} is a table that no export has made: name another one")


def uncertain(table: str, error: Exception) -> JobError:
    """The error for a commit that failed for another reason: it may have succeeded."""
    return JobError(
        f"{table}: {type(error).__name__}: {error}; run it again, which goes on after what was "
        "committed"
    )


def outpaced(table: str, error: Exception) -> JobError:
    """The error for a commit after another export's."""
    return JobError(
        f"{table}: another export was committed meanwhile, and this one was not; run it again "
        f"({error})"
    )
