"""Kills processes of a kind, below a process, once something is under way."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def kill_once(
    what: str, *, when: Callable[[], bool], below: int | None = None, at_most: int = 100
) -> Iterator[list[int]]:
    """Kills processes whose command line has `what` in it, below a process (this one), when
    `when()` holds for the first time in the block. Gives their ids, when it is over."""
    killed: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            if when():
                for process in descendants(below or os.getpid()):
                    if len(killed) < at_most and what in command_line(process):
                        with suppress(ProcessLookupError):
                            os.kill(process, signal.SIGKILL)
                            killed.append(process)
                if killed:
                    return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def descendants(process: int) -> list[int]:
    """The processes below one, by /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = list(children.get(process, []))
    for one in found:
        found += children.get(one, [])
    return found


def command_line(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
