# mypy: ignore-errors
"""Runs a program with an old client, which may be older than this Python.

    launch.py FOLDER SHARED PROGRAM ARGUMENTS...

FOLDER holds the client, SHARED what it needs. After some of them were written, `async` and `await`
became keywords, a generator may not raise StopIteration any more, `six` lost its importer, and
abstract collections moved."""

import collections
import collections.abc
import importlib.machinery
import re
import runpy
import sys
from pathlib import Path

KEYWORD = re.compile(rb"\b(async|await)\b(?!\s+(?:def|with|for)\b)")
STOP = re.compile(rb"\braise StopIteration(\(.*\))?")


class Renewing(importlib.machinery.SourceFileLoader):
    """Sources as they would have been written for this Python."""

    def source_to_code(self, data, path, *, _optimize=-1):
        text = STOP.sub(b"return", KEYWORD.sub(rb"\1_", bytes(data)))
        return super().source_to_code(text, path, _optimize=_optimize)


def finder(folder):
    """For the path of old clients, whatever lies elsewhere is not touched."""
    hook = importlib.machinery.FileFinder.path_hook(
        (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
        (Renewing, importlib.machinery.SOURCE_SUFFIXES),
    )

    def hooked(path: str):
        if not path.startswith(folder):
            raise ImportError("not of the client")
        return hook(path)

    return hooked


def main() -> None:
    folder, shared, program, *arguments = sys.argv[1:]
    for name in ("Mapping", "MutableMapping", "Iterable", "Callable", "Sequence", "Hashable"):
        if not hasattr(collections, name):
            setattr(collections, name, getattr(collections.abc, name))
    if any(name in folder for name in ("kafka-python-0.9", "kafka-python-1.0", "kafka-python-1.3")):
        sys.path_hooks.insert(0, finder(folder))
    sys.path[:0] = [folder, shared]
    import six  # the one in SHARED knows this Python

    for module in list(sys.modules):
        if module == "six" or module.startswith("six."):
            sys.modules["kafka.vendor." + module] = sys.modules[module]
    sys.modules["kafka.vendor.six.moves"] = six.moves
    sys.path.insert(0, str(Path(program).parent))
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


main()
