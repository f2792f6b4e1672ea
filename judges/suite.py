"""The interface of a suite."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .outcome import Outcome
from .targets import Target


@dataclass(frozen=True, slots=True)
class Selection:
    """The tests to run. `logs`: the folder for the output of each test; only that of tests that do
    not pass is kept."""

    target: Target
    bootstrap: str
    quick: bool
    tests: str  # a regular expression, searched for in the names of tests; empty: all
    logs: Path

    def wants(self, test: str) -> bool:
        """Whether a test of this name should run."""
        return re.search(self.tests, test) is not None


class Suite(Protocol):
    """Tests of another project. Each suite has a file, and a line in suites.py."""

    name: str
    title: str
    version: str  # of the fetched release
    of_old_clients: bool  # then the gateway in front of Kafka 4 is compared with Kafka 3

    def prepare(self) -> None:
        """Fetches and builds. InstallError: with the output of the tools."""

    def run(self, selection: Selection) -> Iterator[Outcome]:
        """Runs its tests one by one, each with its time limit, and yields their outcomes."""
