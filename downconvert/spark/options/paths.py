"""Paths as Spark and its users give them.

Not here: patterns in paths (stores/patterns.py), finding the partitions there (planner.py)."""

import json

from downconvert.spark.stores.stores import is_stored, local_path, pinned


def json_list(text: str) -> list[str]:
    """The paths in a JSON list. ValueError: the text is not such a list."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"path: {text[:200]!r} is not a JSON list") from error
    if not isinstance(found, list) or not all(isinstance(path, str) and path for path in found):
        raise ValueError(f"path: {text!r} is not a JSON list of directories")
    return found


def plain(path: str) -> str:
    """A path of this machine, which Spark may give as `file:/...`; or a URI."""
    if is_stored(path):
        pinned(path)  # raises if it is invalid
    return local_path(path)
