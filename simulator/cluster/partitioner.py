"""The partition of a record with a key, as Kafka's Java producers choose it.

Not here: records without a key, which may go to any partition."""

from typing import Final

SEED: Final = 0x9747B28C
M: Final = 0x5BD1E995
R: Final = 24
MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits, as a signed number [org.apache.kafka.common.utils.Utils]."""
    hashed = SEED ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * M & MASK
        word = (word ^ word >> R) * M & MASK
        hashed = hashed * M & MASK ^ word
    if tail := data[whole:]:
        hashed = (hashed ^ int.from_bytes(tail, "little")) * M & MASK
    hashed = (hashed ^ hashed >> 13) * M & MASK
    hashed ^= hashed >> 15
    return hashed - (1 << 32) if hashed >> 31 else hashed


def partition_for(key: bytes, partitions_count: int) -> int:
    """The partition of a key. Partitions without a leader count, too. The mask clears the sign bit,
    which is not the same as the absolute value."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions_count
