"""Options of a simulation: the size of fetches, the number of consumers, and the policy.

Options are sent to child processes and put into reports. The policy is kept as the user's text, so
that the report prints it unchanged."""

from dataclasses import dataclass
from typing import Final

from downconvert.conversion.policies import parse_policy
from records.units import KiB, MiB, format_count, format_size
from simulator.checks import check
from simulator.modes import MODES, Mode
from simulator.rounds import ROUNDS, ROUNDS_MAX

CONSUMERS_MAX: Final = 1000

# Both are Kafka's defaults: a consumer requests 1 MiB of a partition (max.partition.fetch.bytes),
# and a broker's socket buffers 100 KiB (socket.send.buffer.bytes).
FETCH_SIZE: Final = MiB
SEND_BUFFER_SIZE: Final = 100 * KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Sizes are bytes.

    to_magic: the format that the consumers read, 0 or 1.
    max_bytes: of the log, in one fetch; whole batches, at least one.
    consumers: the number of consumers that read at once. Each reads the whole log, from a different
    starting point.
    slow: the number of additional consumers, which read at `rate` bytes a second until the others
    are done.
    policy: as `parse_policy` reads it.
    modes: which of lazy, eager and zero-copy are run.
    rounds: how many times each mode is measured, in turns. With one there is no warm-up."""

    to_magic: int = 1
    max_bytes: int = FETCH_SIZE
    consumers: int = 6
    slow: int = 2
    rate: int = 4 * MiB
    policy: str = "default"
    modes: tuple[Mode, ...] = MODES
    rounds: int = ROUNDS

    def __post_init__(self) -> None:
        check(self.to_magic in (0, 1), "to_magic is 0 or 1: everything newer needs no conversion")
        check(self.max_bytes >= 1, "max_bytes is at least 1")
        check(1 <= self.consumers <= CONSUMERS_MAX, f"consumers are 1 to {CONSUMERS_MAX}")
        check(0 <= self.slow <= CONSUMERS_MAX, f"slow consumers are 0 to {CONSUMERS_MAX}")
        check(self.rate >= KiB, "rate is at least 1KiB a second")
        check(1 <= self.rounds <= ROUNDS_MAX, f"rounds are 1 to {ROUNDS_MAX}")
        check(bool(self.modes), "there is no mode to run")
        for mode in self.modes:
            check(mode in MODES, f"a mode is one of {', '.join(MODES)}")
        parse_policy(self.policy)

    def describe(self) -> str:
        """The options in words, for the first lines of a run."""
        consumers = format_count(self.consumers, "consumer")
        if self.slow:
            consumers += f" and {format_count(self.slow, 'slow one')} at {format_size(self.rate)}/s"
        size = format_size(self.max_bytes)
        return f"to v{self.to_magic} by policy {self.policy}, fetches of {size}, {consumers}"
