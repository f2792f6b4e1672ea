"""A task's memory does not depend on its segment: bombs, and a segment larger than the limit.

`python -m bench.spark_plan` does the same with a segment of 1 GB and bombs of 900 MB."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.measuring.bombs import bomb
from records import Codec
from records.units import MiB
from tests.downconvert.storage.logs import batch, segment

# The memory of Python and of a worker's imports is not the segment's.
GROWTH_MAX = 48 * MiB
BOMB_SIZE = 96 * MiB

CHILD = """
import json, sys
from downconvert.spark.jobs.audit.audit_segment import Task as AuditTask, audit_segments
from downconvert.spark.jobs.convert.convert_segment import Task, convert_segment
from downconvert.spark.jobs.convert.rewrite import Settings

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024

def work(source, target, to_magic):
    settings = Settings(to_magic=to_magic, record_size_max=4 * 1024 * 1024)
    task = Task(topic="t", partition=0, base_offset=0, source=source, target=target,
                settings=settings)
    list(audit_segments(AuditTask("t", 0, source, (0,))))
    return convert_segment(task, attempt="1")

small, large, to_magic = sys.argv[1], sys.argv[2], int(sys.argv[3])
assert work(small, small + "-out", to_magic).status == "converted"
before = peak()
entry = work(large, large + "-out", to_magic)
print(json.dumps([entry.status, entry.verified, entry.error, peak() - before]))
"""


def grown(tmp_path: Path, large: Path, to_magic: int, codec: Codec) -> tuple[str, str, str, int]:
    small = segment(tmp_path / "small-0", 0, batch(0, 1, codec=codec), batch(2, magic=1))
    child = subprocess.run(
        [sys.executable, "-c", CHILD, small.path().parent, large, str(to_magic)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    status, verified, error, growth = json.loads(child.stdout)
    return status, verified, error, growth


@pytest.mark.slow
@pytest.mark.parametrize(
    ("codec", "records", "to_magic"),
    [
        (Codec.NONE, 1, 1),
        (Codec.NONE, 1, 2),
        (Codec.GZIP, 1, 1),
        (Codec.GZIP, 96, 1),
        (Codec.GZIP, 96, 2),
        (Codec.ZSTD, 1, 1),
    ],
)
def test_a_bomb_does_not_go_off(tmp_path: Path, codec: Codec, to_magic: int, records: int) -> None:
    path = segment(tmp_path / "bomb-0", 0).path()
    bomb(path, codec, records=records, value_size=BOMB_SIZE // records)
    status, verified, error, growth = grown(tmp_path, path.parent, to_magic, codec)
    assert (status, error) == ("converted", "")
    assert verified == ("copy" if to_magic == 2 else "stream" if records == 1 else "records")
    assert growth <= GROWTH_MAX


def test_a_large_segment_is_never_held(tmp_path: Path) -> None:
    path = segment(tmp_path / "large-0", 0).path()
    with path.open("wb") as file:
        for offset in range(BOMB_SIZE // 500_000):
            file.write(batch(offset, size=500_000, magic=1))
    status, verified, _, growth = grown(tmp_path, path.parent, 2, Codec.NONE)
    assert (status, verified) == ("converted", "records")
    assert growth <= GROWTH_MAX
