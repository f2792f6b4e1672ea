"""pytest's report, as outcomes."""

from judges.kafka_python import outcomes
from judges.outcome import Outcome, Verdict

REPORT = """<testsuites>
<testsuite name="pytest" tests="4">
<testcase classname="test.integration.test_a" name="test_good[gzip]" time="1.5" />
<testcase classname="test.integration.test_a" name="test_bad" time="2.0">
  <failure message="AssertionError: &lt;object at 0x7f00aa&gt; is not&#10;so">long</failure>
</testcase>
<testcase classname="test.integration.test_a" name="test_bad" time="0.1">
  <error message="failed on teardown">long</error></testcase>
<testcase classname="test.integration.test_b.TestTls" name="test_new" time="0.0">
  <skipped type="pytest.skip" message="requires broker >= 4.0">where</skipped></testcase>
</testsuite></testsuites>"""


def test_each_test_and_how_it_ended() -> None:
    good, bad, skipped = outcomes(REPORT)
    assert good == Outcome("test_a.test_good[gzip]", Verdict.PASS, 1.5)
    assert (bad.test, bad.verdict) == ("test_a.test_bad", Verdict.FAIL)
    assert skipped == Outcome("TestTls.test_new", Verdict.SKIP, 0.0, "requires broker >= 4.0")


def test_the_output_is_a_line_without_addresses() -> None:
    first = outcomes(REPORT.replace("failed on teardown", ""))[1]
    assert "\n" not in first.output
    assert "0x7f" not in first.output
