"""Options of a simulation over TCP: the clients, how many of them are slow, and their requests.

Options are sent to child processes and put into reports, so all are plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Final, Self

from downconvert.conversion.policies import parse_policy
from records.units import KiB, MiB, format_count, format_size, parse_size, plain_size
from simulator.checks import check
from simulator.modes import MODES, Mode
from simulator.rounds import ROUNDS, ROUNDS_MAX
from simulator.workload import Workload

CLIENTS_MAX: Final = 10_000
PARTITIONS_MAX: Final = 10_000

# The newest version of Fetch that clients of a release send.
FETCH_VERSIONS: Final[Mapping[str, int]] = {
    "0.8": 0,
    "0.9": 1,
    "0.10.0": 2,
    "0.10": 3,
    "0.11": 4,
    "1.x": 6,
    "2.x": 11,
    "3.x": 12,
}
AS_ON_DISK_SINCE: Final = 4  # the first version of Fetch that returns format v2 (KIP-98)
TODAYS: Final = "3.x"
DEFAULT_WORKLOAD: Final = Workload()


@dataclass(frozen=True, slots=True)
class Group:
    """Clients of one release."""

    kind: str
    count: int

    @property
    def version(self) -> int:
        """The version of Fetch."""
        return FETCH_VERSIONS[self.kind]

    @property
    def is_old(self) -> bool:
        """Whether records are converted for them."""
        return self.version < AS_ON_DISK_SINCE

    def version_in(self, mode: Mode) -> int:
        """The version of Fetch. In zero-copy mode, old clients use the version of current ones."""
        if mode == "zero-copy" and self.is_old:
            return FETCH_VERSIONS[TODAYS]
        return self.version


def parse_clients(text: str) -> tuple[Group, ...]:
    """Reads `0.8:200,3.x:50`. ValueError: one line with the mistake."""
    groups: dict[str, Group] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        kind, _, count = part.rpartition(":")
        if kind not in FETCH_VERSIONS:
            known = ", ".join(FETCH_VERSIONS)
            raise ValueError(f"{part!r} is not KIND:COUNT with a kind of {known}")
        if not count.isdecimal() or not int(count):
            raise ValueError(f"{part!r}: {count!r} is not a number of clients")
        if kind in groups:
            raise ValueError(f"{kind} is given twice")
        groups[kind] = Group(kind, int(count))
    return tuple(groups[kind] for kind in FETCH_VERSIONS if kind in groups)


def format_clients(groups: tuple[Group, ...]) -> str:
    return ",".join(f"{group.kind}:{group.count}" for group in groups)


@dataclass(frozen=True, slots=True)
class Slow:
    """The clients that read slowly: a share of each group, or a number of all clients, the oldest
    first."""

    share: float = 0.0
    count: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `10%` or `5`. ValueError: one line with the mistake."""
        number = text.strip().removesuffix("%")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if text.strip().endswith("%") and 0 <= value <= 100:
            return cls(share=value / 100)
        if number.isdecimal() and not text.strip().endswith("%"):
            return cls(count=int(number))
        raise ValueError(f"{text!r} is neither a number of clients nor a share such as 10%")

    def __str__(self) -> str:
        return f"{self.share * 100:g}%" if self.share else str(self.count)

    def of(self, groups: tuple[Group, ...]) -> list[int]:
        """The number in each group."""
        if self.share:
            return [ceil(group.count * self.share) for group in groups]
        left, slow = self.count, []
        for group in groups:
            slow.append(min(left, group.count))
            left -= slow[-1]
        return slow


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Sizes are bytes, times seconds.

    clients: the releases, and how many of each.
    slow: those of them that read `rate` bytes a second.
    workload: the contents of the topic, all partitions together.
    per_fetch: partitions in one request. Each client reads this many.
    max_bytes: of a partition, for one fetch.
    pause: of current clients between a response and their next request. They follow the end of the
    log; old ones catch up from its beginning. seconds: how long each mode is measured at least, all
    rounds together. A round also lasts until every client that is not slow has read its partitions
    once. policy: as `parse_policy` reads it. rounds: how many times each mode is measured, in
    turns. With one there is no warm-up."""

    clients: tuple[Group, ...]
    slow: Slow = Slow()
    rate: int = 256 * KiB
    workload: Workload = DEFAULT_WORKLOAD
    partitions: int = 200
    per_fetch: int = 1
    max_bytes: int = MiB
    pause: float = 0.05
    seconds: float = 5.0
    policy: str = "default"
    modes: tuple[Mode, ...] = MODES
    rounds: int = ROUNDS

    def __post_init__(self) -> None:
        check(bool(self.clients), "there are no clients")
        check(self.count <= CLIENTS_MAX, f"clients are at most {CLIENTS_MAX:,}")
        check(1 <= self.partitions <= PARTITIONS_MAX, f"partitions are 1 to {PARTITIONS_MAX:,}")
        check(
            1 <= self.per_fetch <= self.partitions,
            f"{format_count(self.partitions, 'partition')}, of which a fetch cannot ask for "
            f"{self.per_fetch}",
        )
        check(0 <= self.pause < inf, "pause is at least 0, and finite")
        check(0 <= self.seconds < inf, "seconds are at least 0, and finite")
        check(self.max_bytes >= 1, "max_bytes is at least 1")
        check(self.rate >= KiB, "rate is at least 1KiB a second")
        check(self.slow.count <= self.count, "there are more slow clients than clients")
        check(1 <= self.rounds <= ROUNDS_MAX, f"rounds are 1 to {ROUNDS_MAX}")
        check(bool(self.modes), "there is no mode to run")
        check(
            all(fast for fast in self.fast),
            "some clients of each kind have to be fast: the others are not timed",
        )
        parse_policy(self.policy)

    @property
    def count(self) -> int:
        """The number of all clients."""
        return sum(group.count for group in self.clients)

    @property
    def fast(self) -> list[int]:
        """The number in each group that is not slow."""
        slow = self.slow.of(self.clients)
        return [group.count - few for group, few in zip(self.clients, slow, strict=True)]

    def for_warm_up(self) -> Self:
        """One client of each kind, not slow, without a time limit."""
        clients = tuple(Group(group.kind, 1) for group in self.clients)
        return replace(self, clients=clients, slow=Slow(), seconds=0.0)

    @property
    def compares_ages(self) -> bool:
        """Whether there are both old and current clients to compare."""
        return {group.is_old for group in self.clients} == {True, False}

    def describe(self) -> str:
        """The options in words, for the first lines of a run."""
        clients = ", ".join(f"{group.count:,} of {group.kind}" for group in self.clients)
        slow = sum(self.slow.of(self.clients))
        words = f"clients: {clients}"
        if slow:
            words += f", of which {slow:,} read {format_size(self.rate)}/s"
        partitions = format_count(self.partitions, "partition")
        words += f"; {format_size(self.workload.size)} in {partitions}"
        read = format_count(self.per_fetch, "partition")
        return f"{words}; a fetch reads {read}, {format_size(self.max_bytes)} of each"

    def arguments(self) -> list[str]:
        """The options of a command that repeats the run."""
        return [
            *("--clients", format_clients(self.clients)),
            *("--slow", str(self.slow)),
            *("--rate", plain_size(self.rate)),
            *("--generate", str(self.workload)),
            *("--partitions", str(self.partitions)),
            *("--partitions-per-fetch", str(self.per_fetch)),
            *("--max-bytes", plain_size(self.max_bytes)),
            *("--pause", f"{self.pause:g}"),
            *("--seconds", f"{self.seconds:g}"),
            *("--policy", self.policy),
            *("--modes", ",".join(self.modes)),
            *("--rounds", str(self.rounds)),
        ]


# --- presets: named experiments


def _kip_283(size: int) -> LoadOptions:
    """The experiment of KIP-283: one old consumer requests 1 MiB of each of 200 partitions."""
    return LoadOptions(
        clients=(Group("0.10.0", 1),),
        workload=Workload(size=size, segment=2**31 - 1),
        per_fetch=200,
        seconds=0.0,
    )


def _herd(size: int) -> LoadOptions:
    """A thousand old consumers return at once, a tenth of them slow."""
    return LoadOptions(
        clients=(Group("0.8", 500), Group("0.10", 500)),
        slow=Slow(share=0.1),
        workload=Workload(size=size, segment=2**31 - 1),
        seconds=10.0,
        modes=("lazy", "eager"),
    )


def _fairness(size: int) -> LoadOptions:
    """A hundred old consumers catch up beside some current ones."""
    return LoadOptions(
        clients=(Group("0.10", 100), Group(TODAYS, 20)),
        workload=Workload(size=size, segment=2**31 - 1),
        max_bytes=256 * KiB,
        seconds=10.0,
        modes=("lazy", "eager"),
    )


PRESETS: Final = {"kip-283": _kip_283, "herd": _herd, "fairness": _fairness}
SIZES: Final = {"kip-283": parse_size("1GiB"), "herd": 256 * MiB, "fairness": 128 * MiB}


def preset(name: str, size: int | None = None) -> LoadOptions:
    """The options of that name. `size`: the size of all partitions, instead of the preset's."""
    return PRESETS[name](SIZES[name] if size is None else size)
