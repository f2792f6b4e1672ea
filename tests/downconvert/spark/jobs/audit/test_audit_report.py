"""The page of an audit, from what was found, without Spark."""

import re
from pathlib import Path

from downconvert.spark.jobs.audit.audit_report import Heading, write_report
from downconvert.spark.jobs.audit.audit_summary import Cost, Topic


def page(path: Path, *topics: Topic) -> str:
    heading = Heading(["/logs"], "downconvert spark audit /logs", is_sample=False)
    write_report(path / "audit.html", topics, heading)
    return (path / "audit.html").read_text()


def test_topics_with_gaps_or_with_offsets_that_no_copy_has_are_listed(tmp_path: Path) -> None:
    found = page(
        tmp_path,
        Topic("with-gaps", gaps=3, missing_offsets=1234),
        Topic("in-no-copy", absent_offsets=5678),
        Topic("whole", partitions=1),
    ).partition("in no copy</th>")[2]
    found = re.sub(r" data-label=\"[^\"]*\"", "", found)
    assert "<tr><td>with-gaps</td><td>3</td><td>1,234</td><td>0</td>" in found
    assert "<tr><td>in-no-copy</td><td>0</td><td>0</td><td>5,678</td>" in found
    assert "whole" not in found


def test_without_missing_offsets_there_is_no_table_of_them(tmp_path: Path) -> None:
    found = page(tmp_path, Topic("whole", partitions=1))
    assert "in no copy" not in found
    assert "No damage was found." in found


def cells(found: str, heading: str) -> list[list[str]]:
    """The rows of the table of a section, by its heading: the texts of their cells."""
    section = found.partition(f"<h2>{heading}</h2>")[2].partition("</section>")[0]
    rows = re.findall(r"<tr>(<td.*?)</tr>", section)
    return [
        [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        for row in rows
    ]


DAY = 86_400_000  # milliseconds
KIB = 1024
SMALL = Topic(
    "small",
    partitions=2,
    segments=3,
    log_bytes=10 * KIB,
    records=1500,
    is_estimate=True,
    shares={(0, "none"): 1 * KIB, (1, "gzip"): 4 * KIB, (2, "zstd"): 5 * KIB},
    compressed_bytes=9 * KIB,
    compressed_payload=36 * KIB,
    sampled_bytes=3 * KIB,
    oldest=2 * DAY,
    newest=5 * DAY,
    damaged=7,
    damages=["first damage", "second damage"],
    v1=Cost(cpu_seconds=2, bytes_out=20 * KIB, buffers=100, temporary=3000),
    v0=Cost(cpu_seconds=6, bytes_out=15 * KIB, buffers=300, temporary=4000),
)
LARGE = Topic(
    "large",
    partitions=4,
    segments=9,
    log_bytes=90 * KIB,
    records=70,
    shares={(1, "none"): 60 * KIB, (2, "none"): 30 * KIB},
    sampled_bytes=22 * KIB,
    newest=2**62,
    v1=Cost(cpu_seconds=1, bytes_out=80 * KIB, buffers=200, temporary=2000),
    v0=Cost(cpu_seconds=4, bytes_out=70 * KIB, buffers=150, temporary=5000),
)
NEW = Topic(
    "new", shares={(2, "none"): 50 * KIB}, log_bytes=50 * KIB, damaged=2, damages=["x", "y"]
)


def test_old_formats_are_listed_largest_first_with_their_youngest_batch(tmp_path: Path) -> None:
    found = page(tmp_path, SMALL, NEW, LARGE)
    assert "2 of 3 topics hold 65 KiB of v0 and v1, and 9 places damaged." in found
    assert cells(found, "Ready for Kafka 4?") == [
        ["large", "", "60 KiB", "67 %", f"{2**62} ms"],
        ["small", "1 KiB", "4 KiB", "50 %", "1970-01-06"],
    ]


def test_contents_are_listed_largest_first(tmp_path: Path) -> None:
    found = cells(page(tmp_path, SMALL, NEW, LARGE), "What there is")
    assert [[row[0], *row[2:]] for row in found] == [
        ["large", "90 KiB", "70", "", "", f"{2**62} ms"],
        ["new", "50 KiB", "0", "", "", ""],
        ["small", "10 KiB", "~1,500", "1 / 4", "1970-01-03", "1970-01-06"],
    ]
    assert found[2][1] == "v0 none 10 %, v1 gzip 40 %, v2 zstd 50 %"


def test_costs_are_sums_of_time_and_bytes_and_peaks_of_memory(tmp_path: Path) -> None:
    found = page(tmp_path, LARGE, SMALL)
    tiles = re.findall(r'"figure">([^<]*)</div>', found)
    assert tiles == ["3 s", "100 KiB", "200 B", "2.93 KiB", "10 s", "85 KiB", "300 B", "4.88 KiB"]
    assert cells(found, "What old consumers cost") == [
        ["small", "2 s", "20 KiB", "6 s", "15 KiB"],
        ["large", "1 s", "80 KiB", "4 s", "70 KiB"],
    ]


def test_damages_are_listed_and_the_number_of_others(tmp_path: Path) -> None:
    found = page(tmp_path, SMALL, NEW)
    assert [line in found for line in ("9 places damaged.", "first damage", "second damage")] == [
        True
    ] * 3
    assert "5 more like these." in found
    found = page(tmp_path, NEW)
    assert "2 places damaged." in found
    assert "more like these" not in found
    assert 'class="conclusion bad">Ready for Kafka 4: every batch is v2, and 2 places' in found


def test_the_head_says_how_much_there_is_and_how_much_was_read(tmp_path: Path) -> None:
    path = tmp_path / "audit.html"
    for is_sample, words in ((True, " as a sample."), (False, ".")):
        heading = Heading(["/one", "/two"], "command", is_sample=is_sample)
        write_report(path, [SMALL, LARGE], heading)
        lead = "100 KiB in 2 topics, 6 partitions, 12 segments, below /one /two; 25 % of it read"
        assert f"{lead} and converted{words}</p>" in path.read_text()
