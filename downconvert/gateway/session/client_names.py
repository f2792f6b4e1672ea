"""Finds the common part of client ids that a scheduler generates for each start.

Not here: which clients are counted by that part (census.py)."""

import re
from typing import Final

ANY: Final = "*"
PREFIX: Final = 8  # characters of a name that the shortest form keeps
DIGITS: Final = re.compile(r"\d+")
UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
PARTS: Final = re.compile(r"([-_.:/@# ]+)")  # separators, which are kept
MIXED: Final = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[0-9A-Za-z]{5,}")
# The suffix that Kubernetes gives a pod: five characters that form no word.
POD: Final = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")


def pattern_of(name: str) -> str:
    """The name with `*` for each generated part. A pattern is returned unchanged."""
    parts = PARTS.split(UUID.sub(ANY, name))
    last = len(parts) - 1
    return "".join(
        ANY
        if MIXED.fullmatch(part) or (0 < at == last and POD.fullmatch(part))
        else DIGITS.sub(ANY, part)
        for at, part in enumerate(parts)
    )


def prefix_of(name: str) -> str:
    """The beginning of a name, and `*`. A short name or a prefix is returned unchanged."""
    return name if len(name.removesuffix(ANY)) <= PREFIX else name[:PREFIX] + ANY
