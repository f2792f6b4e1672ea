"""Runs are kept, and what failed is run once more."""

import re
from pathlib import Path

from judges.outcome import Outcome, Run, Verdict, failed_before, keep, kept, kept_run, merged

RUN = Run(
    "suite",
    "serve",
    "1.0",
    "python -m judges",
    "2026-01-31",
    [
        Outcome("a", Verdict.PASS, 1.5),
        Outcome("b[x]/c", Verdict.FAIL, 2.0, "no"),
        Outcome("b[x]/d", Verdict.PASS, 2.0),
    ],
)


def test_a_run_is_read_as_it_was_kept(tmp_path: Path) -> None:
    keep(RUN, tmp_path)
    assert kept(tmp_path) == [RUN]
    assert kept_run("suite", "serve", tmp_path) == RUN
    assert kept_run("suite", "kafka-4.4.0", tmp_path) is None


def test_a_failed_subtest_is_run_again_with_its_test() -> None:
    wanted = re.compile(failed_before(RUN))
    assert wanted.search("b[x]")
    assert not wanted.search("a")
    assert not wanted.search("b[x]y")
    again = Run(*("suite", "serve", "1.0", "", ""), [Outcome("b[x]/c", Verdict.PASS)])
    assert merged(RUN, again).outcomes == [RUN.outcomes[0], again.outcomes[0]]
    assert failed_before(merged(RUN, again)) == ""
