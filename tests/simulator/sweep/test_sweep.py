"""A sweep measures each point of its grid in every mode."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from records.units import format_rate
from simulator.sweep.report import write_report
from simulator.sweep.sweep import Grid, sweep
from tests.report_pages import check_fits_a_phone

SMALL = Grid(codecs=["none"], record_sizes=[1000], chunk_sizes=[4096], consumers=[2], size=50_000)


def labels_left_out(page: str) -> str:
    return re.sub(r' data-label="[^"]*"', "", page)


def test_each_point_is_measured_and_plotted(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row.asDict() for row in sweep(spark, SMALL, str(tmp_path / "sweep")).collect()]
    assert {(row["codec"], row["record_size"], row["chunk_size"], row["mode"]) for row in rows} == {
        ("none", 1000, 4096, "lazy"),
        ("none", 1000, 4096, "eager"),
    }
    assert all(row["records_per_second"] > 0 and row["failures"] == [] for row in rows)
    write_report(tmp_path / "sweep.html", rows, "downconvert spark sweep <OUT>")
    page = (tmp_path / "sweep.html").read_text()
    assert page.count("<svg") == 2
    assert "The most memory that a sender takes above idle: lazy " in page
    rates = [row["records_per_second"] for row in rows]
    assert all(f"<td>{format_rate(rate)}</td>" in labels_left_out(page) for rate in rates)
    assert ">records/s<" in page[page.index("Throughput") : page.index("<table")]
    assert "<OUT>" not in page
    assert "http" not in page
    check_fits_a_phone(tmp_path / "sweep.html")


@pytest.mark.parametrize(
    "wrong", [{"codecs": ["lzma"]}, {"chunk_sizes": [1]}, {"consumers": [0]}, {"modes": ["fast"]}]
)
def test_a_wrong_grid_is_refused_before_anything_runs(wrong: dict[str, list[object]]) -> None:
    with pytest.raises(ValueError, match=r"codec is|chunk_size must be|consumers are|a mode is"):
        Grid(**wrong)  # type: ignore[arg-type]
