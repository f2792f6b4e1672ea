"""The topic of a simulation over TCP."""

from pathlib import Path

from downconvert.storage import LogDir, TopicPartition
from simulator.load.topic import ORIGINALS, TOPIC, made_size, make_topic
from tests.simulator.loads import SMALL

FILES = {".log", ".index", ".timeindex", ".snapshot"}


def test_every_partition_has_records_and_indexes_of_its_own(tmp_path: Path) -> None:
    sizes: list[int] = []
    make_topic(tmp_path, SMALL.workload, SMALL.partitions, sizes.append)
    assert made_size(SMALL.workload, SMALL.partitions) <= sizes[-1]
    assert sizes == sorted(sizes)
    files = [path for path in tmp_path.rglob("*") if path.suffix in FILES]
    assert len(files) == SMALL.partitions * len(FILES)
    assert len({path.stat().st_ino for path in files}) == len(files)
    logs = [next((tmp_path / f"{TOPIC}-{n}").glob("*.log")).read_bytes() for n in range(6)]
    assert len(set(logs)) == ORIGINALS
    assert logs[ORIGINALS] == logs[0]
    assert sum(map(len, logs)) >= SMALL.workload.size


def test_opening_for_writing_trusts_all_entries(tmp_path: Path) -> None:
    make_topic(tmp_path, SMALL.workload, SMALL.partitions)
    indexes = {path: path.read_bytes() for path in tmp_path.rglob("*.index")}
    with LogDir.open(tmp_path, writable=True) as log_dir:
        ends = [log_dir.logs[TopicPartition(TOPIC, n)].end_offset for n in range(SMALL.partitions)]
    assert min(ends) > 0
    assert ends[ORIGINALS:] == ends[: SMALL.partitions - ORIGINALS]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.index")} == indexes
