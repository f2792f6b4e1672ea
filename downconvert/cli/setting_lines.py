"""Finds the line of an error in a file of settings. The error names the setting.

Not here: finding errors (access/settings.py, gateway/settings.py)."""

import re
from typing import Final

SETTING: Final = re.compile(r"""\s*["']?([\w-]+)["']?\s*=\s*(.*\S)""")
TABLE: Final = re.compile(r"\s*\[+([\w.]+)\]+")
LINE_MAX: Final = 100  # characters shown


def where(text: str, message: str) -> str:
    """Returns ` (line 3: lisen = 1)`, or an empty string if the line is unknown.

    Prefers lines with both the setting and the value that the message names."""
    about = re.split(r"[;:]", message)[0]
    found: dict[str, list[tuple[int, str, str]]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        setting, table = SETTING.match(line), TABLE.match(line)
        if setting is not None:
            found.setdefault(setting[1], []).append((number, line.strip(), setting[2].strip("'\"")))
        elif table is not None:
            found.setdefault(table[1], []).append((number, line.strip(), ""))
    for word in re.findall(r"[\w-]+", about):
        lines = found.get(word)
        if lines:
            exact = [one for one in lines if one[2] and one[2] in message] or lines
            shown = exact[0][1][:LINE_MAX]
            numbers = " or ".join(str(number) for number, _, _ in exact)
            return f" (line {numbers}: {shown})" if len(exact) == 1 else f" (line {numbers})"
    return ""
