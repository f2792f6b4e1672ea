"""What a suite is to those who run it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .outcome import Outcome
from .targets import Target


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be run. `logs` is where the output of each test goes; that of those that do not
    pass stays."""

    target: Target
    bootstrap: str
    quick: bool
    tests: str  # a regular expression, looked for in the names of tests; empty: all
    logs: Path

    def wants(self, test: str) -> bool:
        """Whether a test of this name is to be run."""
        return re.search(self.tests, test) is not None


class Suite(Protocol):
    """Tests that others wrote. A file of its own has each, and a line in suites.py."""

    name: str
    title: str
    version: str  # of what is fetched
    of_old_clients: bool  # then the gateway before Kafka 4 is held against Kafka 3

    def prepare(self) -> None:
        """Fetches and builds. InstallError: what the tools said."""

    def run(self, asked: Asked) -> Iterator[Outcome]:
        """Runs its tests one by one, each with its time limit, and yields how they end."""
