"""Runs the programs of clients, and says how each fared with each topic.

A program is asked for all topics at once, since its start takes longer than its reading. One that
dies is asked for the rest again; none outlasts its time.

Not here: what is right (outcome.py), the command (run.py)."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from .combinations import Combination
from .faults import fault_of
from .install import installed
from .outcome import MISSING, Outcome, difference, without_time
from .topics import Line, Topic

LONGER: Final = 10  # times, for what a slow machine may not have got ready


def run(
    combination: Combination, bootstrap: str, topics: Sequence[Topic], wait: float = 6.0
) -> list[Outcome]:
    """One outcome for each topic. `wait`: seconds that a program may take for a topic; where it
    had read all rightly so far, and nobody knows a reason, it is asked again and given longer."""
    outcomes = _run(combination, bootstrap, topics, wait)
    for number, outcome in enumerate(outcomes):
        if MISSING in outcome.wrong and not fault_of(combination, outcome.topic):
            topic = [topic for topic in topics if topic.name == outcome.topic]
            [second] = _run(combination, bootstrap, topic, wait * LONGER)
            outcomes[number] = replace(second, again=True)
    return outcomes


def _run(
    combination: Combination, bootstrap: str, topics: Sequence[Topic], wait: float
) -> list[Outcome]:
    command = [*installed(combination.client), "--bootstrap", bootstrap]
    command += ["--mode", combination.mode, "--pin", combination.pin, "--wait", str(wait)]
    outcomes = []
    left = list(topics)
    while left:
        started = time.monotonic()
        asked = [(topic.name, len(topic.partitions), len(topic.expected)) for topic in left]
        read, ends, error = ask(command, asked, wait)
        seconds = (time.monotonic() - started) / max(1, len(ends))
        answered = max(1, len([topic for topic in left if topic.name in ends]))
        for topic in left[:answered]:
            found = read.get(topic.name, [])
            wrong = difference(topic.expected, found, combination.magic)
            wrong = wrong or without_time(combination, found)
            end = ends.get(topic.name, f"dies: {error}")
            if wrong and end not in ("count", "time"):
                wrong += f" ({end})"
            elif not wrong and end != "count":
                wrong = end
            outcomes.append(Outcome(combination, topic.name, wrong, seconds))
        left = left[answered:]
    return outcomes


def ask(
    command: Sequence[str], topics: Sequence[tuple[str, int, int]], wait: float
) -> tuple[dict[str, list[Line]], dict[str, str], str]:
    """The records read, by topic; how each program ended; and its last words about errors.

    Topics are asked for by name, partitions, and the records to expect."""
    asked = list(command)
    for name, partitions, count in topics:
        asked += ["--topic", f"{name}:{partitions}:{count}"]
    process = subprocess.Popen(
        asked,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=30 + len(topics) * (wait + 10))
    except subprocess.TimeoutExpired:
        out, err = b"", b"killed: it does not end"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    read: dict[str, list[Line]] = {}
    ends: dict[str, str] = {}
    for line in out.splitlines():
        try:
            row: dict[str, Any] = json.loads(line)
            topic_name = row.pop("topic")
        except (ValueError, KeyError, AttributeError):
            continue  # a client that prints, too
        if "end" in row:
            ends[topic_name] = row["end"]
        else:
            read.setdefault(topic_name, []).append(row)
    last = err.decode(errors="replace").strip().splitlines()[-1:] or ["without a word"]
    return read, ends, last[0][:200]
