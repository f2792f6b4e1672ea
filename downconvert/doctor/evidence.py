"""The common form of all evidence: seen requests, and problems of reading.

Not here: counting (census.py), conclusions (diagnosis.py)."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from .releases import NAMES, VERSION_MAX

PROBLEM_WORDS_MAX: Final = 100  # kinds of damage that are counted separately
COUNT_MAX: Final = 1 << 62  # requests, because JSON can have a number of any size
WHEN_MAX: Final = 253_402_300_800.0  # seconds since the epoch: the year 10000
NAME_MAX: Final = 128  # characters of a client's name
UNKNOWN: Final = "unknown"  # a broker's word for software without a name


class Seen(NamedTuple):
    """Requests of one client, all of one API and version."""

    client_id: str  # empty: none, or not in the evidence
    software: str  # name and version; empty: unknown
    address: str  # without port; empty: not in the evidence
    api: int
    version: int
    requests: int
    when: float | None  # the last of them, in seconds since the epoch


class Problems:
    """Problems of reading, counted by kind. Damage is reported, and reading continues."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, what: str, count: int = 1) -> None:
        """`what` comes from this program, never from the input."""
        if what in self.counts or len(self.counts) < PROBLEM_WORDS_MAX:
            self.counts[what] += count


class Reader(Protocol):
    """Reads one kind of evidence. It is fed bytes in pieces of any size, and raises nothing."""

    problems: Problems

    def feed(self, data: bytes) -> Iterator[Seen]:
        """The requests in these bytes, which follow those before."""
        ...

    def end(self) -> Iterator[Seen]:
        """The remaining requests when no more bytes come."""
        ...


def seen(
    *,
    client_id: object,
    software: tuple[object, object] = ("", ""),
    address: object = "",
    api: object,
    version: object,
    requests: int = 1,
    when: float | None = None,
) -> Seen | None:
    """Requests from untrusted fields. None if no API or version of this number exists."""
    if type(api) is not int or type(version) is not int:
        return None
    if api not in NAMES or not 0 <= version <= VERSION_MAX:
        return None
    name, release = (_text(part) for part in software)
    when = when if when is not None and 0 <= when < WHEN_MAX else None
    named = "" if name in ("", UNKNOWN) else f"{name} {'' if release == UNKNOWN else release}"
    return Seen(
        _text(client_id),
        named.strip()[:NAME_MAX],
        _text(address),
        api,
        version,
        min(requests, COUNT_MAX),
        when,
    )


def _text(value: object) -> str:
    """Shortened, and encodable: a JSON string can hold half a surrogate pair."""
    if not isinstance(value, str):
        return ""
    return value[:NAME_MAX].encode("utf-8", "replace").decode()
