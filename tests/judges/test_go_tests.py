"""The output of Go's test programs is read as outcomes."""

from judges.go_tests import ends
from judges.outcome import Outcome, Verdict

SAID = """\
=== RUN   TestPing
--- PASS: TestPing (0.01s)
=== RUN   TestOld
    old_test.go:218: broker still takes produce v2
    helpers_test.go:9: deleting topic 1234
--- SKIP: TestOld (0.10s)
=== RUN   TestGroup
=== RUN   TestGroup/range
=== RUN   TestGroup/range/848
12:00:00.1 [INFO] a line of the client's, and no line feed    --- PASS: TestGroup/range (3.00s)
    group_test.go:7: saw 3 records twice
    --- FAIL: TestGroup/range/848 (4.50s)
--- FAIL: TestGroup (4.51s)
FAIL
"""


def test_each_test_and_how_it_ended() -> None:
    assert list(ends(SAID, "")) == [
        Outcome("TestPing", Verdict.PASS, 0.01),
        Outcome("TestOld", Verdict.SKIP, 0.1, "old_test.go:218: broker still takes produce v2"),
        Outcome("TestGroup/range", Verdict.PASS, 3.0),
        Outcome("TestGroup/range/848", Verdict.FAIL, 4.5, "group_test.go:7: saw 3 records twice"),
    ]


def test_a_test_with_others_is_counted_where_it_failed_by_itself() -> None:
    output = (
        "=== RUN   TestA\n=== RUN   TestA/b\n    --- PASS: TestA/b (0.00s)\n"
        "    a_test.go:1: not tidied up\n--- FAIL: TestA (0.10s)\n"
    )
    assert [(outcome.test, outcome.verdict) for outcome in ends(output, "")] == [
        ("TestA/b", Verdict.PASS),
        ("TestA", Verdict.FAIL),
    ]


def test_tests_that_never_ended_failed() -> None:
    output = (
        "=== RUN   TestA\n=== RUN   TestA/b\n=== RUN   TestA/c\n    --- PASS: TestA/c (0.00s)\n"
        "panic: at last\n"
    )
    assert [
        outcome for outcome in ends(output, "time limit") if outcome.verdict is not Verdict.PASS
    ] == [Outcome("TestA/b", Verdict.FAIL, 0.0, "time limit")]


def test_a_reason_has_no_clean_up_lines_and_no_machine_names() -> None:
    output = (
        "=== RUN   TestA\n"
        "    a_test.go:7: member a.test@vm-1.local (a)-12: no message\n"
        "    group.go:12: Reader: Leaving group g, member a.test@vm-1.local (a)-12\n"
        "--- FAIL: TestA (0.10s)\n"
    )
    [outcome] = ends(output, "")
    assert outcome.output == "a_test.go:7: member a.test (a)-12: no message"


def test_a_program_that_says_nothing_has_no_tests() -> None:
    assert list(ends("", "time limit")) == []
