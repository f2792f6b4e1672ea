"""The frame of every report, and writing it: one HTML file that opens offline.

At the top is one sentence, the conclusion. Below it are the date, the version and the command of
the report. Not here: the look (style.py)."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from records.paths import whole_file

from .style import CSS

DISTRIBUTION: Final = "lazy-downconvert"
_TABLE: Final = re.compile(r"<table.*?</table>", re.DOTALL)
_HEADING: Final = re.compile(r"<th[^>]*>(.*?)</th>", re.DOTALL)
_ROW: Final = re.compile(r"<tr.*?</tr>", re.DOTALL)
_CELL: Final = re.compile(r"<td([^>]*)>")
_SPAN: Final = re.compile(r'colspan="(\d+)"')
_TAG: Final = re.compile(r"<[^>]*>")


def framed(
    title: str,
    conclusion: str,
    command: str,
    parts: Iterable[str],
    *,
    is_good: bool | None = None,
    lead: str = "",
) -> Iterator[str]:
    """A whole page around its sections. title, conclusion, command and lead are text, parts are
    HTML. is_good: None if the conclusion is neither good nor bad."""
    tone = {True: "good", False: "bad", None: "same"}[is_good]
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{escape(title)}</title><style>{CSS}</style></head><body><main>"
    yield f'<h1>{escape(title)}</h1><p class="conclusion {tone}">{escape(conclusion)}</p>'
    if lead:
        yield f'<p class="lead">{escape(lead)}</p>'
    yield f'<p class="made">{escape(_made())}</p><pre>{escape(command)}</pre>'
    yield labelled("".join(parts))
    yield "</main></body></html>\n"


def labelled(html: str) -> str:
    """Adds its column's heading to each cell of a table except the first of its row, because a
    phone shows rows as cards."""
    return _TABLE.sub(lambda found: _labelled_table(found[0]), html)


def _labelled_table(table: str) -> str:
    headings = [_TAG.sub("", text).strip() for text in _HEADING.findall(table)]

    def row(found: re.Match[str]) -> str:
        column = 0

        def cell(start: re.Match[str]) -> str:
            nonlocal column
            at, attributes = column, start[1]
            span = _SPAN.search(attributes)
            column += int(span[1]) if span else 1
            if at == 0 or span or at >= len(headings) or not headings[at]:
                return start[0]
            return f'<td{attributes} data-label="{headings[at]}">'

        return _CELL.sub(cell, found[0])

    return _ROW.sub(row, table)


def write_page(path: Path, parts: Iterable[str]) -> None:
    """Writes a file, all of it or nothing. FileExistsError: as `whole_file`."""
    with whole_file(path) as file:
        # A file's name in the command may be no UTF-8.
        file.write("".join(parts).encode(errors="backslashreplace"))


def _made() -> str:
    return f"Made on {datetime.now(UTC):%Y-%m-%d at %H:%M} UTC by {DISTRIBUTION} {_version()}:"


@cache
def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "(not installed)"
