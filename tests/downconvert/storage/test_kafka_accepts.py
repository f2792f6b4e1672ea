"""A broker of Kafka 3.9.1 reads our logs without complaint, in all formats and codecs."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from downconvert.storage import Log, LogConfig, LogDir, TopicPartition
from downconvert.storage.cleaning.compact_log import compact
from downconvert.storage.cleaning.upgrade_log import upgrade
from records.batches.builder import build, build_marker
from records.batches.control import ControlRecordType
from records.formats import V0, V1, V2, Codec, TimestampType
from records.record import Record

from . import brokers
from .deaths import machine_dies
from .kafka_broker import Verdict, judge
from .logs import UNSYNCED
from .workload import PARTITION

# Indexes with many entries, and several segments.
CONFIG = LogConfig(
    segment_bytes=60_000,
    index_interval_bytes=1000,
    segment_index_bytes=12_000,
    delete_retention_ms=500,
)
EXISTING = [
    (magic, codec)
    for magic in (V0, V1, V2)
    for codec in Codec
    if codec is not Codec.ZSTD or magic == V2
]


def records(start: int, count: int, magic: int, random: Random) -> list[Record]:
    """Records of all sizes, with and without keys and values, with some offsets missing."""
    kind = TimestampType.NONE if magic == V0 else TimestampType.CREATE
    found, offset = [], start
    for _ in range(count):
        time = -1 if magic == V0 else 1_600_000_000_000 + 10 * offset + random.randint(-30, 30)
        key = random.choice((None, b"", b"key"))
        value = random.choice((None, b"", random.randbytes(random.choice((10, 300, 3000)))))
        headers = (("h", b"v"),) if magic == V2 and random.random() < 0.2 else ()
        found.append(Record(offset, time, kind, key, value, headers))
        offset += 1
    return found


def write_plain(log: Log, magic: int, codec: Codec) -> None:
    random = Random(magic * 10 + codec)
    for _ in range(60):
        batch = records(log.end_offset, random.choice((1, 3, 20)), magic, random)
        options = {"leader_epoch": 3} if magic == V2 else {}
        log.writer.append(build(batch, magic=magic, codec=codec, **options))


def write_transactions(log: Log) -> None:
    random = Random(5)
    sequences = {1: 0, 2: 0, 3: 0}
    for _ in range(150):
        producer = random.choice(list(sequences))
        if random.random() < 0.4:
            kind = random.choice((ControlRecordType.ABORT, ControlRecordType.COMMIT))
            time, offset = 1_600_000_000_000 + 10 * log.end_offset, log.end_offset
            marker = build_marker(kind, offset=offset, timestamp=time, producer_id=producer)
            log.writer.append(marker)
        else:
            batch = records(log.end_offset, 3, V2, random)
            data = build(
                batch,
                magic=V2,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequences[producer],
                transactional=True,
            )
            sequences[producer] += len(batch)
            log.writer.append(data)


def write_mixed(log: Log) -> None:
    random = Random(9)
    for _ in range(80):
        magic, codec = random.choice(EXISTING)
        batch = records(log.end_offset, random.choice((1, 5)), magic, random)
        log.writer.append(build(batch, magic=magic, codec=codec))
        if random.random() < 0.05:
            log.writer.truncate_to(log.end_offset - random.randint(1, 8))


def write_compacted(log: Log) -> None:
    random = Random(11)
    for now in (1000, 2000, 10**10):
        for _ in range(60):
            end, magic = log.end_offset, random.choice((V2, V2, V1))
            records = [
                Record(
                    end + n,
                    10 * (end + n),
                    TimestampType.CREATE,
                    b"key %d" % random.randrange(12),
                    random.choice((None, random.randbytes(300))),
                )
                for n in range(5)
            ]
            codec = random.choice((Codec.NONE, Codec.GZIP, Codec.LZ4))
            log.writer.append(build(records, magic=magic, codec=codec))
        compact(log, CONFIG, now=now, files=UNSYNCED)


WRITTEN: dict[str, Callable[[Log], None]] = {
    f"v{magic}.{codec.name.lower()}": lambda log, m=magic, c=codec: write_plain(log, m, c)
    for magic, codec in EXISTING
} | {
    "transactions": write_transactions,
    "mixed": write_mixed,
    "compacted": write_compacted,
}
SEEDS = range(5)


@pytest.fixture(scope="module")
def verdicts(
    tmp_path_factory: pytest.TempPathFactory, real: Path
) -> dict[str, tuple[Verdict, Path]]:
    """The verdicts on all cases at once, because a JVM starts slowly. Each verdict comes with a
    copy of what was judged."""
    path = tmp_path_factory.mktemp("judged")
    ours, theirs = path / "ours", path / "theirs"
    ours.mkdir()
    for name, write in WRITTEN.items():
        with LogDir.open(ours, writable=True, config=CONFIG, files=UNSYNCED) as log_dir:
            write(log_dir.logs.create(TopicPartition(name, 0)))
    for seed in SEEDS:  # what is left of one that has died again and again
        (path / str(seed)).mkdir()
        machine_dies(path / str(seed), seed, deaths=3)
        shutil.copytree(path / str(seed) / "3" / str(PARTITION), ours / f"died.{seed}-0")
    for directory in brokers.directories():
        shutil.copytree(real / directory, path / "recovered")
        (path / "recovered" / ".kafka_cleanshutdown").unlink(missing_ok=True)
        (path / "recovered" / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
        with LogDir.open(path / "recovered", writable=True, files=UNSYNCED) as log_dir:
            names = [str(partition) for partition in log_dir.logs]
        for name in names:
            target = f"{directory.replace('/', '.')}.{name}"
            shutil.copytree(path / "recovered" / name, ours / target)
        shutil.rmtree(path / "recovered")
        upgrade(real / directory, path / "upgraded", files=UNSYNCED)
        for name in names:
            target = f"upgraded.{directory.replace('/', '.')}.{name}"
            shutil.copytree(path / "upgraded" / name, ours / target)
        shutil.rmtree(path / "upgraded")
    shutil.copytree(ours, theirs)
    found = judge(sorted(p for p in theirs.iterdir() if p.is_dir()))
    return {name: (verdict, ours / name) for name, verdict in found.items()}


def assert_accepted(verdict: Verdict, path: Path) -> None:
    complaints = verdict.complaints
    # That offsets are missing where they were removed is all that there is to say.
    if complaints.startswith("Non-consecutive offsets in "):
        complaints = ""
    assert complaints == ""
    assert verdict.bytes_cut == 0
    log = Log.open(path)
    assert (verdict.start, verdict.end) == (log.segments[0].base_offset, log.end_offset)
    assert verdict.last_stable == log.last_stable_offset


@pytest.mark.parametrize("name", WRITTEN)
def test_kafka_accepts_written_logs(verdicts: dict[str, tuple[Verdict, Path]], name: str) -> None:
    verdict, path = verdicts[f"{name}-0"]
    assert_accepted(verdict, path)
    assert len(Log.open(path).segments) > 1


@pytest.mark.parametrize("seed", SEEDS)
def test_kafka_accepts_logs_recovered_from_a_crash(
    verdicts: dict[str, tuple[Verdict, Path]], seed: int
) -> None:
    assert_accepted(*verdicts[f"died.{seed}-0"])


@pytest.mark.parametrize("directory", brokers.directories())
def test_kafka_accepts_recovered_logs_of_all_broker_versions(
    verdicts: dict[str, tuple[Verdict, Path]], directory: str
) -> None:
    names = [name for name in verdicts if name.startswith(f"{directory.replace('/', '.')}.")]
    assert names
    for name in names:
        assert_accepted(*verdicts[name])


@pytest.mark.parametrize("directory", brokers.directories())
def test_kafka_accepts_upgraded_logs(
    verdicts: dict[str, tuple[Verdict, Path]], directory: str
) -> None:
    prefix = f"upgraded.{directory.replace('/', '.')}."
    names = [name for name in verdicts if name.startswith(prefix)]
    assert names
    for name in names:
        assert_accepted(*verdicts[name])


def test_kafka_finds_the_same_aborted_transactions(
    verdicts: dict[str, tuple[Verdict, Path]],
) -> None:
    verdict, path = verdicts["transactions-0"]
    log = Log.open(path)
    found = log.aborted(0, log.end_offset)
    ours = sorted(f"{t.producer_id}:{t.first_offset}-{t.last_offset}" for t in found)
    assert len(ours) > 10
    assert sorted(verdict.aborted.split()) == ours
