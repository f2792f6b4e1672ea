"""Patterns in paths, as in Spark's file sources: `*`, `?`, `[ab]`, `[^ab]` and `{a,b}`.

Not here: files below the paths (trees.py, stored_trees.py)."""

import os
import re
from collections.abc import Iterable
from glob import glob
from typing import Final

PATTERN: Final = re.compile(r"[*?\[{]")
ARCHIVE: Final = re.compile(r"\.(tar|tgz)(\.|$)")
BRACES: Final = re.compile(r"\{([^{}]*)\}")


def check_paths(paths: Iterable[str]) -> None:
    """NotADirectoryError: a path is not a directory, a tar, a URI or a pattern that matches
    directories. URIs are not looked up."""
    for path in paths:
        is_tar = ARCHIVE.search(path) is not None and os.path.isfile(path)  # noqa: PTH113
        if "://" not in path and not is_tar:
            expanded([path])


def expanded(paths: Iterable[str]) -> list[str]:
    """Replaces patterns by the directories that they match: `*`, `?`, `[ab]`, `[^ab]` and `{a,b}`,
    as in Spark's file sources. A path that exists is not treated as a pattern.

    NotADirectoryError: a path is not a directory, or nothing matches a pattern."""
    found: list[str] = []
    for path in paths:
        if os.path.isdir(path):  # noqa: PTH112 - a path is a string here, as from Spark
            found.append(path)
            continue
        if not PATTERN.search(path):
            raise NotADirectoryError(f"{path} is not a directory")
        matches = [
            match
            for alternative in alternatives(path)
            for match in sorted(glob(alternative.replace("[^", "[!")))  # noqa: PTH207
            if os.path.isdir(match)  # noqa: PTH112
        ]
        if not matches:
            raise NotADirectoryError(f"{path}: no directory matches that")
        found += matches
    return list(dict.fromkeys(found))


def alternatives(pattern: str) -> list[str]:
    """Expands `{a,b}`. Braces may be nested."""
    innermost = BRACES.search(pattern)
    if innermost is None:
        return [pattern]
    before, after = pattern[: innermost.start()], pattern[innermost.end() :]
    return [
        found
        for choice in innermost[1].split(",")
        for found in alternatives(f"{before}{choice}{after}")
    ]
