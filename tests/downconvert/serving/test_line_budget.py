import logging
from math import inf

import pytest

from downconvert.serving.line_budget import LINES_MAX, LineBudget
from records.logged import log_of

LOG = log_of("downconvert.test")
WARNING = logging.WARNING


@pytest.fixture
def budget() -> LineBudget:
    return LineBudget()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_few_lines_are_written_as_they_are(
    budget: LineBudget, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(LINES_MAX):
        budget.write(LOG, 0.0, WARNING, "end", "client %d: gone", number)
    budget.write_omitted(inf)
    assert lines(caplog) == [f"client {number}: gone" for number in range(LINES_MAX)]


def test_more_are_counted_and_their_number_is_written_once_a_second(
    budget: LineBudget, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(10_000):
        budget.write(LOG, number / 1000, WARNING, "end", "client %d: gone", number)
    budget.write_omitted(inf)
    found = lines(caplog)
    assert len(found) == 10 * (LINES_MAX + 1)
    assert found[LINES_MAX] == "and 990 more, the last one: client 999: gone"
    assert {record.levelno for record in caplog.records} == {WARNING}


def test_one_kind_does_not_silence_another(
    budget: LineBudget, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        budget.write(LOG, 0.0, WARNING, "end", "gone")
    budget.write(LOG, 0.0, WARNING, "login", "failed")
    assert lines(caplog)[-1] == "failed"


def test_omitted_lines_are_reported_once_and_after_their_second(
    budget: LineBudget, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(LINES_MAX + 1):
        budget.write(LOG, 0.0, WARNING, "end", "gone")
    budget.write_omitted(0.5)
    assert len(lines(caplog)) == LINES_MAX
    for now in (1.0, 1.1, 2.5):
        budget.write_omitted(now)
    assert lines(caplog)[LINES_MAX:] == ["and 1 more, the last one: gone"]


def test_a_line_keeps_its_fields(budget: LineBudget, caplog: pytest.LogCaptureFixture) -> None:
    budget.write(LOG, 0.0, WARNING, "end", "gone", extra={"fields": {"client": "a"}})
    assert caplog.records[0].pathname == __file__
    assert caplog.records[0].fields == {"client": "a"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("before", [inf, 1e9])
def test_lines_after_the_end_or_before_a_clock_that_was_set_back_are_counted(
    budget: LineBudget, caplog: pytest.LogCaptureFixture, before: float
) -> None:
    budget.write_omitted(before)
    for _ in range(LINES_MAX + 3):
        budget.write(LOG, 5.0, WARNING, "end", "gone")
    budget.write_omitted(5.9)
    assert len(lines(caplog)) == LINES_MAX
    budget.write_omitted(6.0)
    assert lines(caplog)[LINES_MAX:] == ["and 3 more, the last one: gone"]
