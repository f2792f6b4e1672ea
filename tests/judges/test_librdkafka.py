"""librdkafka's list of tests, and its report of one."""

import json

from judges import librdkafka
from judges.librdkafka import reported
from judges.limited import Ended
from judges.outcome import Outcome, Verdict

SOURCE = """
#define _TEST(NAME, FLAGS, ...)                                                \\
        { .name = #NAME, .flags = FLAGS, __VA_ARGS__ }
_TEST_DECL(0001_multiobj);
struct test tests[] = {
    {.name = "<MAIN>", .flags = TEST_F_LOCAL},
    _TEST(0001_multiobj, 0),
    _TEST(0004_conf, TEST_F_LOCAL),
    _TEST(0011_produce_batch,
          0,
          /* Produces a lot of messages */
          _THRES(.ucpu = 40.0, .scpu = 8.0)),
    _TEST(0018_cgrp_term, 0, TEST_BRKVER(0, 9, 0, 0)),
    _TEST(0045_no_auto, 0, TEST_BRKVER(0, 9, 0, 0), .scenario = "noautocreate"),
    _TEST(0049_conn_close, TEST_F_SOCKEM, TEST_BRKVER(0, 9, 0, 0)),
    _TEST(8000_idle, TEST_F_MANUAL),
};
"""


def test_tests_that_need_a_broker_of_the_usual_kind() -> None:
    chosen = librdkafka.tests_with_a_broker(SOURCE)
    assert chosen == ["0001_multiobj", "0011_produce_batch", "0018_cgrp_term"]


def ended(state: str, message: str = "") -> Outcome:
    report = json.dumps({"tests": {"<MAIN>": {"state": "PASSED"}, "0001_a": {"state": state}}})
    return reported(report, "0001_a", Ended(0, message, 2.0))


def test_the_states_of_a_report() -> None:
    assert ended("PASSED") == Outcome("0001_a", Verdict.PASS, 2.0)
    assert ended("FAILED").verdict is Verdict.FAIL
    assert ended("RUNNING").verdict is Verdict.FAIL
    assert ended("DNS").verdict is Verdict.SKIP


def test_the_reason_is_from_the_programs_output() -> None:
    failed = '\x1b[31m### Test "0001_a" failed at test.c:1:f() at Sun: ###\x1b[0m\nno topic\nmore\n'
    assert ended("FAILED", failed).output == "no topic"
    of_a_client = failed.replace("no topic", "0001_a#producer-1 rdkafka error: all are down")
    assert ended("FAILED", of_a_client).output == "producer-1 rdkafka error: all are down"
    skipped = "|\x1b[36m 0001_a |    SKIPPED |   0.000s \x1b[0m|\x1b[36m no ACLs\x1b[0m\n"
    assert ended("SKIPPED", skipped).output == "no ACLs"
