"""The page of a sweep, from rows that nobody has to measure."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from simulator.sweep.report import write_report
from tests.report_pages import check_fits_a_phone


def row(mode: str, consumers: int, chunk: int, size: int, peak: int) -> dict[str, Any]:
    return {
        "workload": f"record={size}",
        "codec": "gzip",
        "record_size": size,
        "chunk_size": chunk,
        "consumers": consumers,
        "mode": mode,
        "peak_bytes": peak,
        "records_per_second": 10**9 / size,
        "cpu_seconds": 0.5,
        "fetch_p99_seconds": 0.02,
        "failures": [],
    }


ROWS = [
    row(mode, consumers, chunk, size, peak * consumers)
    for mode, peak in (("lazy", 3_000_000), ("eager", 3_100_000))
    for consumers in (1, 10)
    for chunk in (4096, 16384)
    for size in (100, 5000)
]


def test_each_line_has_its_name_at_its_end_and_no_two_names_touch(tmp_path: Path) -> None:
    write_report(tmp_path / "sweep.html", ROWS, "downconvert spark sweep OUT")
    plot = (tmp_path / "sweep.html").read_text().split("<svg")[1]
    heights = dict[str, float]()
    for mode in ("lazy", "eager"):
        for words in ("1 consumer", "10 consumers"):
            found = re.search(rf' y="([\d.]+)"[^>]*>{mode}, {words}<', plot)
            assert found is not None, (mode, words)
            heights[f"{mode}, {words}"] = float(found[1])
    ordered = sorted(heights.values())
    assert min(b - a for a, b in pairwise(ordered)) > 7  # points
    assert heights["eager, 1 consumer"] < heights["lazy, 1 consumer"]  # it takes more: higher up
    check_fits_a_phone(tmp_path / "sweep.html")


def test_slow_sizes_have_a_scale_of_their_own(tmp_path: Path) -> None:
    write_report(tmp_path / "sweep.html", ROWS, "downconvert spark sweep OUT")
    plots = (tmp_path / "sweep.html").read_text().partition("<table")[0]
    _, _, _, fast, slow = plots.split("<svg")
    assert ">10 M<" in fast
    assert ">10 M<" not in slow
    assert ">200 k<" in slow


def test_a_failed_check_is_the_conclusion(tmp_path: Path) -> None:
    failed = [{**ROWS[0], "failures": ["lazy: a byte differs"]}, *ROWS[1:]]
    write_report(tmp_path / "sweep.html", failed, "downconvert spark sweep OUT")
    page = (tmp_path / "sweep.html").read_text()
    assert "A check failed: the figures below are not to be trusted." in page
    assert "failed: lazy: a byte differs" in page
