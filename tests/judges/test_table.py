"""Runs as a table, and what differs from the reference."""

import pytest

from judges import reasons, table
from judges.outcome import Outcome, Run, Verdict
from judges.reasons import Reason

PASS, FAIL, SKIP = Verdict.PASS, Verdict.FAIL, Verdict.SKIP


def run(target: str, suite: str = "franz-go", **verdicts: Verdict) -> Run:
    outcomes = [
        Outcome(test, verdict, 1.0, "" if verdict is PASS else f"{test} | said\nmore")
        for test, verdict in verdicts.items()
    ]
    return Run(suite, target, "1", "python -m judges", "2026-01-31", outcomes)


RUNS = [
    run("kafka-3.9.1", a=PASS, b=PASS, c=FAIL, d=SKIP, e=PASS),
    run("serve", a=PASS, b=FAIL, c=PASS, d=SKIP),
]


def test_tests_that_pass_on_the_reference_only_are_differences() -> None:
    assert [(found.test, found.verdict) for found in table.differences(RUNS)] == [
        ("b", "fail"),
        ("e", "not run"),
    ]
    assert table.gained(RUNS[1], RUNS[0]) == ["c"]


def test_before_kafka_4_old_clients_are_held_against_kafka_3() -> None:
    tests = {"old": PASS}
    runs = [
        run("kafka-3.9.1", "kafka-tools", **tests),
        run("kafka-4.4.0", "kafka-tools", old=FAIL),
        run("gateway-4.4.0", "kafka-tools", old=FAIL),
    ]
    (found,) = table.differences(runs)
    assert (found.target, found.reference) == ("gateway-4.4.0", "kafka-3.9.1")


def test_a_known_reason_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasons, "REASONS", (Reason("franz-go", "serve", "b|x", "no such thing"),))
    assert [found.reason for found in table.differences(RUNS)] == ["no such thing", ""]
    output = table.document(RUNS)
    assert "| franz-go | `serve --writable` | `b` | no such thing |" in output
    assert "| franz-go | `serve --writable` | `e` | *not known yet*: not run, its output" in output


def test_the_document_has_the_numbers_and_one_line_for_each_cell() -> None:
    output = table.document(RUNS)
    assert "| franz-go (1.22.2) | 3 / 1 / 1 | not run | not run | not run | 2 / 1 / 1 |" in output
    assert (
        "| franz-go | `serve --writable` | `b` | *not known yet*: fail, its output: b / said more"
        in output
    )
    _, gained = output.split("These pass here")
    assert "| franz-go | `serve --writable` | `c` |" in gained
    assert "2026-01-31" in output


def test_nothing_to_compare_with_is_no_difference() -> None:
    assert table.differences([RUNS[1]]) == []
