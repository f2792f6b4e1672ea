"""How an application fared: the records that arrived against those that should have.

A record that arrived twice is right, and is noted: all of these applications try again if they
have no response."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from .application import COUNT, NAMES, Does

_NAME: Final = re.compile(r"record-\d{4}")
_COMPLAINT: Final = re.compile(
    r"error|exception|fail|fatal|unsupported|closed|disconnect|\beof\b|not supported|timed out"
    r"|no broker|unavailable|denied|panic",
    re.IGNORECASE,
)
# Parts of a line that differ from run to run: colours, times, addresses, paths, processes, topics.
_ONCE: Final = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:?\d\d)?"), ""),
    (re.compile(r"\b\d\d:\d\d:\d\d([.,]\d+)?\b"), ""),
    (re.compile(r"(?:127\.0\.0\.1|localhost)[:/]\d+"), "broker:9092"),
    (re.compile(r"(?<![\w/:.])/(?:[\w.+-]+/)+"), "/…/"),
    (re.compile(r"%\d\|\d+\.\d+\|"), ""),
    (re.compile(r"\b\d+#\d+: (?:\*\d+ )?"), ""),
    (re.compile(r"trial-\d+"), "topic"),
    (re.compile(r'"(ts|level|offset_offset)":("\w+"|[\d.]+),'), ""),
    (re.compile(r"\s+"), " "),
)
# Lines that the end of a trial causes, and lines of stack traces.
_NOT_IT: Final = re.compile(
    r"interrupted|loop terminated|failed at \w+ \d|^\s+at "
    # Storm's lines about itself, its ZooKeeper, and an end whose reason it has given.
    r"|INFO +o\.a\.s\.|end ?of ?stream ?exception|worker died",
    re.IGNORECASE,
)
_LENGTH: Final = 160


@dataclass(frozen=True, slots=True)
class Outcome:
    """`wrong` is empty where all was right; `twice` counts records that came more than once."""

    application: str
    setting: str
    target: str
    wrong: str
    twice: int = 0
    complaint: str = ""  # the last that the application logged
    on: str = ""  # the day, as YYYY-MM-DD

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def judged(does: Does, seen: str) -> tuple[str, int]:
    """The faults in the seen records, in words, and how many records came more than once."""
    if does is Does.WATCHES:
        wanted = str(COUNT)
        return ("" if seen == wanted else f"says {seen or 'nothing'}, not {wanted}"), 0
    counts = Counter(_NAME.findall(seen))
    found = sum(name in counts for name in NAMES)
    twice = sum(count > 1 for count in counts.values())
    return ("" if found == COUNT else f"{found} of {COUNT}"), twice


def complaint(output: str) -> str:
    """The last line that complains, without what is only of this once; empty if there is none."""
    for line in reversed(output.splitlines()):
        if _COMPLAINT.search(line) and not _NOT_IT.search(line):
            for pattern, instead in _ONCE:
                line = pattern.sub(instead, line)
            line = line.strip()
            return line if len(line) <= _LENGTH else f"{line[:_LENGTH]}…"
    return ""


def merged(earlier: Sequence[Outcome], later: Sequence[Outcome]) -> list[Outcome]:
    """The later ones where there are two of the same."""
    by_name: Mapping[tuple[str, str, str], Outcome] = {
        (one.application, one.setting, one.target): one for one in (*earlier, *later)
    }
    return list(by_name.values())
