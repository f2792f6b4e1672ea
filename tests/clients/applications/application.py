"""An application that speaks to Kafka, and one trial of it against one target.

Each file beside this one that has an `APPLICATIONS` is of one kind of application: where it comes
from, how it is configured, what it does. A record's value contains its name, `record-0001` and so
on, whatever the application puts around it.

Not here: what is right (outcome.py), which targets there are (targets.py)."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # it brings a client along, which a table can do without
    from subprocess import Popen

    from .targets import Target

COUNT: Final = 20  # records in a trial
NAMES: Final = tuple(f"record-{number:04}" for number in range(1, COUNT + 1))
POLL_SECONDS: Final = 0.2
LOG: Final = "output.log"  # in a trial's directory: what the application says


class Does(Enum):
    """The use that an application makes of a topic, by which it is judged."""

    PRODUCES = "produces"  # the records that the topic has afterwards
    CONSUMES = "consumes"  # the records in what it hands out
    WATCHES = "watches"  # the number of records, or of those behind a group, that it says


@dataclass(frozen=True, slots=True)
class Setting:
    """How an application is configured: `name` as a user would write it."""

    name: str
    values: Mapping[str, str] = field(default_factory=dict, hash=False)


AS_IT_COMES: Final = Setting("as it comes")


@dataclass(frozen=True, slots=True)
class Trial:
    """One application, in one setting, against one target."""

    installed: Path
    directory: Path  # empty, and the trial's own
    target: "Target"
    topic: str
    setting: Setting
    seconds: float  # how long it may take to do it

    @property
    def bootstrap(self) -> str:
        return self.target.bootstrap

    @property
    def log(self) -> Path:
        return self.directory / LOG

    def write(self, name: str, text: str) -> Path:
        """A file of the trial's."""
        path = self.directory / name
        path.write_text(text)
        return path

    def arrived(self) -> bool:
        """Whether the topic has all the records."""
        return self.target.end_offset(self.topic) >= COUNT

    def until(self, holds: Callable[[], bool], process: "Popen[bytes]") -> None:
        """Waits for it as long as a trial may take and the process runs."""
        deadline = time.monotonic() + self.seconds
        while not holds() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def has_all(self, path: Path) -> bool:
        """Whether all records are named in a file that is being written."""
        text = path.read_text(errors="replace") if path.exists() else ""
        return all(name in text for name in NAMES)


@dataclass(frozen=True, slots=True)
class Application:
    """`run` yields the text of what was consumed, or the number that was seen; nothing where it
    produces. InstallError: `install` did not do it."""

    name: str
    comes_from: str  # registry, package, version
    client: str  # the library inside
    does: Does
    settings: Sequence[Setting]
    install: Callable[[], Path]
    run: Callable[[Trial], str]
    group: str = ""  # that the records are behind, where the application watches one
