"""Scans: every record is read once, and responses are those of an eager conversion."""

from dataclasses import replace
from pathlib import Path

import pytest

from records import FileRecords
from records.units import KiB
from simulator import Workload
from simulator.children import SimulationError
from simulator.load.options import Group
from simulator.load.plan import make_scans, shares, used_shares
from simulator.load.topic import TOPIC
from tests.simulator.loads import SMALL, topic


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return topic(tmp_path_factory.mktemp("plan"), SMALL)


def records_in(directory: Path, partition: int) -> int:
    (path,) = (directory / f"{TOPIC}-{partition}").glob("*.log")
    with FileRecords.open(path) as records:
        return sum(header.records_count or 0 for header in records.batches())


@pytest.mark.parametrize("kind", ["0.8", "0.9", "0.10.0", "0.10", "0.11", "1.x", "2.x", "3.x"])
@pytest.mark.parametrize("max_bytes", [3_000, 20_000, 1_000_000])
def test_a_scan_reads_every_record_once(directory: Path, kind: str, max_bytes: int) -> None:
    group = Group(kind, 2)
    options = replace(SMALL, clients=(group,), per_fetch=3, max_bytes=max_bytes, modes=("lazy",))
    scans = make_scans(directory, options)
    for (version, share), scan in scans.items():
        assert version == group.version
        read = sum(step.records for step in scan)
        expected = sum(records_in(directory, index) for index in shares(options)[share])
        assert read == expected
        assert all(step.size > step.records for step in scan)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_scan_of_compressed_batches_reads_every_record_once(tmp_path: Path, codec: str) -> None:
    workload = Workload(codec=codec, size=64 * KiB)
    options = replace(SMALL, workload=workload, partitions=2, modes=("lazy", "zero-copy"))
    topic(tmp_path, options)
    for (_, share), scan in make_scans(tmp_path, options).items():
        assert sum(step.records for step in scan) == records_in(tmp_path, share)


def test_partitions_are_shared_out() -> None:
    options = replace(SMALL, per_fetch=4)
    assert shares(options) == [(0, 1, 2, 3), (4, 5)]
    assert used_shares(options) == {0: 2, 12: 2, 3: 2}
    assert used_shares(replace(options, modes=("lazy",), clients=(Group("0.9", 1),))) == {1: 1}
    # Old clients use the version of current ones where nothing is converted.
    both = (Group("0.8", 2), Group("3.x", 1))
    assert used_shares(replace(options, clients=both, modes=("zero-copy",))) == {12: 2}
    assert used_shares(replace(options, clients=both[::-1], modes=("zero-copy",))) == {12: 2}


def test_a_client_that_cannot_be_answered_is_an_error(tmp_path: Path) -> None:
    options = replace(SMALL, workload=Workload(codec="zstd", size=KiB), policy="recode=zstd:refuse")
    topic(tmp_path, options)
    with pytest.raises(SimulationError, match="Fetch v0 got error 76"):
        make_scans(tmp_path, options)


def test_recompressed_responses_are_compared_too(tmp_path: Path) -> None:
    options = replace(
        SMALL,
        clients=(Group("0.10", 1),),
        workload=Workload(codec="gzip", size=512 * KiB),
        partitions=1,
        max_bytes=100_000,
        modes=("lazy",),
    )
    topic(tmp_path, options)
    (scan,) = make_scans(tmp_path, options).values()
    assert sum(step.records for step in scan) == records_in(tmp_path, 0)
