"""Finds the line of an error in a file of settings, by the setting that the error names.

Not here: finding errors (access/settings.py, gateway/settings.py)."""

import re
from collections.abc import Iterable
from typing import Final

SETTING: Final = re.compile(r"""\s*["']?([\w-]+)["']?\s*=\s*(.*\S)""")
TABLE: Final = re.compile(r"\s*\[+([\w.]+)\]+")
SECTION: Final = re.compile(r"\s*\[\[\s*clusters\s*\]\]")
OF_SECTION: Final = "clusters."  # before the name of a section's table
LINE_MAX: Final = 100  # characters that are shown


def where(text: str, message: str, section: int | None = None) -> str:
    """` (line 3: lisen = 1)`, or nothing if no line is known to be wrong.

    Lines with the first setting that the message names are preferred. Among them, lines with a
    value that it names are preferred. `section`: the index of the section of [[clusters]]."""
    lines = list(enumerate(text.splitlines(), start=1))
    begins = [place for place, (_, line) in enumerate(lines) if SECTION.match(line)]
    if section is None or section >= len(begins):
        return _where(lines, message)
    own = slice(begins[section], dict(enumerate(begins)).get(section + 1))
    header = lines[begins[section]]
    return (
        _where(lines[own], message)
        or _where(lines[: begins[0]], message)
        or f" (line {header[0]}: {header[1].strip()})"
    )


def _where(lines: Iterable[tuple[int, str]], message: str) -> str:
    """As `where`, among these numbered lines."""
    about = re.split(r"[;:]", message)[0]
    found: dict[str, list[tuple[int, str, str]]] = {}
    for number, line in lines:
        setting, table = SETTING.match(line), TABLE.match(line)
        if setting is not None:
            found.setdefault(setting[1], []).append((number, line.strip(), setting[2].strip("'\"")))
        elif table is not None:
            found.setdefault(table[1].removeprefix(OF_SECTION), []).append(
                (number, line.strip(), "")
            )
    for word in re.findall(r"[\w-]+", about):
        named = found.get(word)
        if named:
            exact = [one for one in named if one[2] and one[2] in message] or named
            shown = exact[0][1][:LINE_MAX]
            numbers = " or ".join(str(number) for number, _, _ in exact)
            return f" (line {numbers}: {shown})" if len(exact) == 1 else f" (line {numbers})"
    return ""
