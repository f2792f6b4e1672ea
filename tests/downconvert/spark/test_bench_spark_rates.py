"""The yardstick of the benchmark of rates is as long as what it is held against."""

from pathlib import Path

from bench.contenders.spark_ceiling import Ceiling, copies_of
from bench.spark_rates import PARTITIONS, TOPICS, Figures, report, write_logs
from records.units import KiB


def test_the_ceiling_gives_about_as_many_rows_as_are_there(tmp_path: Path) -> None:
    sizes = write_logs(tmp_path, 64 * KiB)
    assert sizes.keys() == TOPICS.keys()
    assert min(sizes.values()) >= PARTITIONS * 64 * KiB
    copies, total = copies_of(str(tmp_path), topics="large")
    source = Ceiling({"path": str(tmp_path), "topics": "large", "copies": str(copies)})
    reader = source.reader(source.schema())
    rows = sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))
    assert total / 2 < rows <= total


def test_compared_rates_are_of_the_same_round() -> None:
    figures = Figures()
    for name in ("all", "ceiling", "s3", "export", "pyarrow", "find", "keys"):
        figures.add(name, 2_000_000 if name == "s3" else 1_000_000, 1.0)
        figures.add(f"{name}, 100 B", 1_000_000, 0.5)
    assert any(line.split() == ["s3,", "of", "all", "2.00"] for line in report(figures))
