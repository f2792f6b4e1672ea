"""The page of an audit, from what was found, without Spark."""

import re
from pathlib import Path

from downconvert.spark.jobs.audit.audit_report import Heading, write_report
from downconvert.spark.jobs.audit.audit_summary import Topic


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
