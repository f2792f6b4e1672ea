"""Small damaged segments. Each depends only on a seed and a number.

Segments come from `records.build`, in every format and codec. Some are damaged before they are
compressed, so there is also damage inside good compressed data."""

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from downconvert import AbortedTransaction, ConversionPolicy
from records.batches.builder import build, build_empty, build_marker
from records.batches.control import ControlRecordType
from records.codecs import compress
from records.formats import BATCH_HEADER_SIZE, V0, V1, V2, Codec, TimestampType
from records.record import Record
from records.units import KiB, MiB
from tests.damage import mutated
from tests.records.examples import batch, message
from tests.records.tracing import Job

SEGMENTS: Final = 500  # good ones to be damaged
EVERY_CODEC: Final = tuple(Codec)
LEGACY_CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
CREATE: Final = TimestampType.CREATE
NOW: Final = 1_700_000_000_000

POLICIES: Final = (
    ConversionPolicy(),
    ConversionPolicy(chunk_size=128),
    ConversionPolicy.kafka(),
    ConversionPolicy(chunk_size=200, wrapper_size_max=256, recode={"lz4": "none"}),
    ConversionPolicy(
        chunk_size=300,
        isolation="read_committed",
    ),
    replace(ConversionPolicy.kafka(), chunk_size=150),
)
ABORTED: Final = (AbortedTransaction(1, 0), AbortedTransaction(2, 3, 8))


@dataclass(frozen=True, slots=True)
class Mutant:
    """A damaged segment, and the options of its conversion."""

    number: int
    data: bytes
    to_magic: int
    first_offset: int
    policy: ConversionPolicy
    job: Job  # for the kernel alone

    @property
    def aborted(self) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions, for a policy that needs them."""
        return ABORTED if self.policy.isolation == "read_committed" else ()

    def __str__(self) -> str:
        return (
            f"mutant {self.number}, to v{self.to_magic} from offset {self.first_offset}\n"
            f"  policy {self.policy}\n  kernel {self.job}\n  bytes  {self.data.hex()}"
        )


class Mutants:
    """All mutants of a seed, by number."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        random = Random(seed)
        self._segments = [_segment(random) for _ in range(SEGMENTS)]

    def __getitem__(self, number: int) -> Mutant:
        random = Random(f"{self._seed}/{number}")
        if random.random() < 0.25:
            data = _damaged_inside(random)
        else:
            data = mutated(random.choice(self._segments), random)
        return Mutant(
            number,
            data,
            to_magic=random.choice((V0, V1, V1)),
            first_offset=random.choice((0, 0, 1, 3, 1000)),
            policy=random.choice(POLICIES),
            job=_job(random),
        )


def _job(random: Random) -> Job:
    whole = random.random() < 0.5
    return Job(
        random.choice(("transcode", "transcode", "measure", "columns")),
        to_magic=random.choice((V0, V1, V1, V2)),
        first_offset=random.choice((0, 0, 2)),
        pass_codecs=random.choice((0xFF, 1)),
        stop_transactional=random.random() < 0.2,
        windows=(MiB,) if whole else (random.randrange(1, 100),),
        rooms=(4 * KiB,) if whole else (random.randrange(0, 200),),
        allows=(random.random() < 0.5,),
        overlong=random.random() < 0.3,
        handles_large=random.random() < 0.3,
    )


# --- good segments


def _segment(random: Random) -> bytes:
    """One to three batches at increasing offsets."""
    offset = random.choice((0, 0, 5, 2**31 - 2))
    parts = []
    for _ in range(random.choice((1, 1, 2, 3))):
        data, offset = _batch(random, offset)
        parts.append(data)
    return b"".join(parts)


def _batch(random: Random, offset: int) -> tuple[bytes, int]:
    """A batch of any kind, and the offset after it."""
    kind = random.randrange(20)
    if kind == 0:
        return build_empty(base_offset=offset, last_offset=offset + 2), offset + 3
    if kind == 1:
        end = random.choice((ControlRecordType.ABORT, ControlRecordType.COMMIT))
        return build_marker(end, offset=offset, timestamp=NOW, producer_id=1), offset + 1
    records = _records(random, offset)
    next_offset = records[-1].offset + 1
    magic = random.choice((V2, V2, V2, V1, V0))
    append_time = magic != V0 and random.random() < 0.3
    options = {"append_time": NOW + 7, "timestamp_type": TimestampType.LOG_APPEND}
    data = build(
        records,
        magic=magic,
        codec=random.choice((Codec.NONE, *(EVERY_CODEC if magic == V2 else LEGACY_CODECS))),
        transactional=magic == V2 and random.random() < 0.2,
        producer_id=1 if magic == V2 and random.random() < 0.2 else -1,
        **(options if append_time else {}),  # type: ignore[arg-type]
    )
    return data, next_offset


def _records(random: Random, offset: int) -> list[Record]:
    records = []
    for _ in range(random.choice((1, 1, 2, 3, 5))):
        value = random.choice((None, b"", b"value", random.randbytes(random.randrange(40))))
        headers = random.choice(((), (), (("h", b"x"), ("", None))))
        timestamp = NOW + random.randrange(-5, 1000)
        key = random.choice((None, b"", b"key", b"k" * random.choice((3, 70))))
        records.append(Record(offset, timestamp, CREATE, key, value, headers))
        offset += random.choice((1, 1, 1, 2, 5))
    return records


# --- damage inside good compressed data


def _damaged_inside(random: Random) -> bytes:
    magic = random.choice((V0, V1, V2))
    inside = build(_records(random, random.choice((0, 4))), magic=magic)
    if magic == V2:
        inside = inside[BATCH_HEADER_SIZE:]
    inside = mutated(inside, random)
    codec = random.choice(EVERY_CODEC[1:] if magic == V2 else LEGACY_CODECS[1:])
    compressed = compress(codec, inside, magic=magic, compression_level="fast")
    offset = random.choice((0, 4, 2**63 - 2))
    attributes = codec | random.choice((0, 8))
    if magic != V2:
        return message(magic, offset, None, compressed, attributes=attributes)
    return batch(
        compressed=compressed,
        attributes=attributes,
        base_offset=offset,
        records_count=random.choice((1, 1, 2, 3, 5, 2**31 - 1)),
        last_offset_delta=random.choice((0, 3, 1000)),
    )
