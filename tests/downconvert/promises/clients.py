"""How clients of one log ask: each in its own format, from its own offset, under its own policy and
limits.

Not here: what they are to get (world.py), how they take it (channels.py)."""

from dataclasses import dataclass, replace
from random import Random
from typing import Final, Literal

from downconvert import ConversionPolicy

from .any_log import Zstd

CHUNK_SIZES: Final = (128, 300, 1_000, 8 * 1024, 128 * 1024)
WRAPPER_SIZES: Final = (2_048, 8_192, 65_536, 1 << 20, None)
RECODES: Final[tuple[dict[str, str], ...]] = (
    dict(ConversionPolicy().recode),
    {"zstd": "none"},
    {"zstd": "snappy", "gzip": "lz4"},
    {"zstd": "gzip", "lz4": "none", "snappy": "gzip"},
)

ISOLATIONS: Final[tuple[Literal["read_uncommitted", "read_committed"], ...]] = (
    "read_uncommitted",
    "read_committed",
)
# How many clients ask as Kafka converts, which refuses zstd.
KAFKAS: Final[dict[Zstd, float]] = {"anywhere": 0, "aborted": 0.5, "nowhere": 0.5}


@dataclass(frozen=True, slots=True)
class Asks:
    """to_magic: the format that the client reads. max_bytes: of the log, at least a batch. hard:
    bytes of the response that the client has room for, but for a first message; None: any."""

    to_magic: int
    policy: ConversionPolicy
    max_bytes: int
    hard: int | None

    @property
    def is_committed(self) -> bool:
        """Whether the client reads committed records only."""
        return self.policy.isolation == "read_committed"

    @property
    def has_everything(self) -> bool:
        """Whether no response ends early: the next could not begin inside of a batch."""
        return self.policy.size == "exact" and not self.policy.trim_compressed


def any_policy(random: Random, *, is_kafka: bool, is_committed: bool) -> ConversionPolicy:
    chunk_size = random.choice(CHUNK_SIZES)
    isolation = ISOLATIONS[is_committed]
    if is_kafka:
        return replace(ConversionPolicy.kafka(), chunk_size=chunk_size, isolation=isolation)
    return ConversionPolicy(
        chunk_size=chunk_size,
        isolation=isolation,
        size=random.choice(("exact", "exact", "exact", "exact", "estimate")),
        recode=random.choice(RECODES),
        trim_compressed=random.random() < 0.85,
        split_at_gaps=random.random() < 0.7,
        wrapper_size_max=random.choice(WRAPPER_SIZES),
        compression_level=random.choice(("fast", "fast", "kafka")),
    )


def any_asks(random: Random, size: int, zstd: Zstd) -> Asks:
    """How a client asks for a log of so many bytes. No client is refused a batch that it reads."""
    is_kafka = random.random() < KAFKAS[zstd]
    is_committed = zstd == "aborted" or random.random() < 0.3
    policy = any_policy(random, is_kafka=is_kafka, is_committed=is_committed)
    is_hard = policy.trim_compressed and random.random() < 0.3
    return Asks(
        random.choice((0, 1, 1)),
        policy,
        random.choice((1, size // 4, size // 2, 2 * size)),
        random.choice((1, 100, size // 4, size // 2, size)) if is_hard else None,
    )
