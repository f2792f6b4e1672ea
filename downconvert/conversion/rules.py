"""A policy's rules for one target format. They decide which batches are kept, converted or refused.

The kernel drops and copies by rules that need no policy (records/kernel.py). It returns if a codec,
a control batch or a transaction needs a decision.

Not here: reading batches (converter.py), aborted transactions (aborted.py)."""

from functools import lru_cache
from typing import Final

from records.batch import BatchHeader
from records.errors import CorruptRecordsError, UnsupportedCodecError
from records.formats import V0, V1, V2, Codec
from records.kernel import PLAIN, Recodes
from records.units import KiB

from .policy import CHUNK_SIZE_MIN, ConversionPolicy

ONE_SHOT_SIZE_MAX: Final = 128 * KiB  # of an entry's compressed and decompressed bytes
_UNLIMITED: Final = 2**63 - 1
_INNER_SIZE_MAX: Final = 2**31 - 1  # the limit of a message's size field


@lru_cache(maxsize=64)
def rules_for(policy: ConversionPolicy, to_magic: int) -> "Rules":
    """The rules of a policy. They are made once, because a fetch needs them several times."""
    return Rules(policy, to_magic)


class Rules:
    """A policy, for messages of format `to_magic`."""

    def __init__(self, policy: ConversionPolicy, to_magic: int) -> None:
        if to_magic not in (V0, V1, V2):
            raise ValueError(f"to_magic must be 0, 1 or 2, not {to_magic}")
        self._policy = policy
        self._to_magic = to_magic
        self._chosen: dict[tuple[int, int], tuple[Codec, Codec]] = {}
        self.recodes = self._recodes()  # the kernel's options for compressed batches
        self.committed_only = policy.isolation == "read_committed"
        self.may_refuse = self._may_refuse()  # whether any codec is refused
        self.pass_codecs = sum(1 << codec for codec in Codec if self._passes_always(codec))

    def _passes_always(self, codec: Codec) -> bool:
        """Whether messages with this codec are copied unchanged in the target's format and in all
        older ones."""
        if self._to_magic == V2:
            return True
        magics = range(self._to_magic + 1)
        return all(self._policy.codec_for(codec, magic) is codec for magic in magics)

    def _recodes(self) -> Recodes:
        """The kernel's options. These sizes change the bytes sent, so they do not depend on
        `chunk_size`."""
        policy = self._policy
        wrapper_size_max = policy.wrapper_size_max or _UNLIMITED
        return Recodes(
            bytes(self._target(codec) for codec in Codec),
            policy.compression_level == "fast",
            policy.trim_compressed,
            policy.split_at_gaps,
            max(CHUNK_SIZE_MIN, min(ONE_SHOT_SIZE_MAX, wrapper_size_max // 8)),
            min(wrapper_size_max, _INNER_SIZE_MAX),
        )

    def _target(self, codec: Codec) -> int:
        """The kernel's target codec for a v2 batch with this codec; 0 if Python decides."""
        target_codec = self._policy.codec_for(codec, self._to_magic)
        if codec is Codec.NONE or self._to_magic == V2 or target_codec is None:
            return 0
        return target_codec or PLAIN

    def codec_for(self, codec_id: int, magic: int, position: int) -> tuple[Codec, Codec]:
        """The codec of a batch of format `magic` and the target codec of its records.

        Raises UnsupportedCodecError if the policy refuses it, CorruptRecordsError if this format
        has no such codec. The order is Kafka's: zstd is refused before the batch's format is
        checked."""
        chosen = self._chosen.get((codec_id, magic))
        if chosen is not None:
            return chosen
        if codec_id not in Codec.__members__.values():
            raise CorruptRecordsError("unknown codec", position)
        codec = Codec(codec_id)
        target_codec = self._policy.codec_for(codec, min(magic, self._to_magic))
        if target_codec is None:
            raise UnsupportedCodecError(codec.name.lower(), position)
        if codec is Codec.ZSTD and magic < V2:
            raise CorruptRecordsError("codec does not exist in this message format", position)
        self._chosen[codec_id, magic] = codec, target_codec
        return codec, target_codec

    def _may_refuse(self) -> bool:
        return self._to_magic < V2 and any(
            self._policy.codec_for(codec, magic) is None
            for codec in Codec
            for magic in range(self._to_magic + 1)
        )

    def refuses(self, header: BatchHeader) -> bool:
        """Whether this batch would be refused. Markers are dropped before, so they are never
        refused."""
        magic = min(header.magic, self._to_magic)
        return not header.is_control and self._policy.codec_for(header.codec, magic) is None
