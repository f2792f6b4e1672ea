"""The options of a conversion as one frozen value, with their defaults and Kafka's own choice.

The default policy loses nothing and bounds everything. `ConversionPolicy.kafka()` does what Kafka
3.9 does, without sending a batch twice. docs/conversion.md gives the reason for each default.

Not here: what a policy means for one batch (rules.py)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal, Self

from records.codecs import CompressionLevel
from records.formats import Codec
from records.units import KiB, MiB

# KIP-283: "a chunk is formed by reading a maximum of 16kB of messages"
CHUNK_SIZE: Final = 16 * KiB
CHUNK_SIZE_MIN: Final = 128  # holds a batch header, and the head of any record
RESPONSE_SIZE_MAX: Final = 2**31 - 1  # a fetch response states the size in a 32-bit integer
WRAPPER_SIZE_MAX: Final = MiB

REFUSE: Final = "refuse"

# Codecs that old clients cannot read, and their replacement, which every client can read. lz4 in v0
# has a wrong frame checksum (KAFKA-3160): half of the clients require it, the others fail on it.
RECODE_DEFAULT: Final[Mapping[str, str]] = MappingProxyType({"zstd": "gzip", "lz4:magic0": "gzip"})


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """A producer's aborted transaction. Its data begins at `first_offset`. It ends with the
    producer's next ABORT marker, or at `last_offset` if that is known (as in a .txnindex)."""

    producer_id: int
    first_offset: int
    last_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionPolicy:
    """How to convert. All sizes are bytes.

    chunk_size: how much is read and converted at a time.
    size: how the response size is promised. "exact": the size is measured first, and exactly that
        is sent. The response ends after 512 KiB of recompressed batches, and the next fetch gets
        the rest. Without trim_compressed all of the range is measured, because the next fetch
        cannot begin inside a batch then.
        "estimate": as in Kafka, the larger of the raw size and the size of the first converted
        batch. A larger result is cut, and a smaller one is filled up.
    recode: codec to codec, for codecs that the client cannot read: {"zstd": "gzip"}. "lz4:magic0"
        applies only to messages of that format. "none" sends uncompressed messages. "refuse" raises
        UnsupportedCodecError, as Kafka does for zstd. Codecs that are not named are kept, except
        zstd, which is refused because v0 and v1 do not have it.
    isolation: "read_committed" leaves out aborted transactions. The caller has to name them
        (`aborted` of LazyDownConvertRecords).
    trim_compressed: drop records below first_offset inside a converted compressed batch, too.
    split_at_gaps: begin another compressed v1 message at each gap in the offsets. One message
        cannot have gaps.
    wrapper_size_max: a batch that decompresses to more becomes several compressed messages, and no
        compressed message held in memory is larger. With None, each batch becomes one, as in Kafka.
    compression_level: "fast", or "kafka" for about the size that Kafka's own settings reach."""

    chunk_size: int = CHUNK_SIZE
    size: Literal["exact", "estimate"] = "exact"
    recode: Mapping[str, str] = field(default_factory=lambda: RECODE_DEFAULT)
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    trim_compressed: bool = True
    split_at_gaps: bool = True
    wrapper_size_max: int | None = WRAPPER_SIZE_MAX
    compression_level: CompressionLevel = "fast"
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check(self.chunk_size >= CHUNK_SIZE_MIN, f"chunk_size must be at least {CHUNK_SIZE_MIN}")
        _check(self.size in ("exact", "estimate"), "size is exact or estimate")
        _check(
            self.compression_level in ("fast", "kafka"), "compression_level must be fast or kafka"
        )
        _check(
            self.isolation in ("read_uncommitted", "read_committed"),
            "isolation is read_uncommitted or read_committed",
        )
        size = self.wrapper_size_max
        least = f"wrapper_size_max must be at least {CHUNK_SIZE_MIN}"
        _check(size is None or size >= CHUNK_SIZE_MIN, least)
        for codec, target_codec in self.recode.items():
            _check_recode(codec, target_codec)
        object.__setattr__(self, "recode", MappingProxyType(dict(self.recode)))
        values = self._options() | {"recode": frozenset(self.recode.items())}
        object.__setattr__(self, "_hash", hash(tuple(values.values())))

    def _options(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self) if each.init}

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def kafka(cls) -> Self:
        """Kafka 3.9's observable behaviour, except that it does not send a batch twice."""
        return cls(
            size="estimate",
            recode={"zstd": REFUSE},
            trim_compressed=False,
            split_at_gaps=False,
            wrapper_size_max=None,
            compression_level="kafka",
        )

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), **self._options() | {"recode": dict(self.recode)}), ()

    @property
    def may_end_early(self) -> bool:
        """Whether an exact response may end after enough recompressed messages."""
        return self.size == "exact" and self.trim_compressed

    def codec_for(self, codec: Codec, magic: int) -> Codec | None:
        """The codec for records compressed with `codec` in messages of format `magic`. None if the
        policy refuses them."""
        name = codec.name.lower()
        target_codec = self.recode.get(f"{name}:magic{magic}", self.recode.get(name, name))
        if target_codec == REFUSE or (target_codec == "zstd" and magic < 2):
            return None
        return Codec[target_codec.upper()]


def _check(holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(rule)


def _check_recode(codec: str, target_codec: str) -> None:
    name, _, magic = codec.partition(":")
    _check(
        name in ("gzip", "snappy", "lz4", "zstd") and magic in ("", "magic0", "magic1"),
        f"recode: {codec!r} is not gzip, snappy, lz4 or zstd, nor these with :magic0 or :magic1",
    )
    _check(
        target_codec in ("none", "gzip", "snappy", "lz4", REFUSE),
        f"recode: {target_codec!r} is not none, gzip, snappy, lz4 or refuse",
    )
