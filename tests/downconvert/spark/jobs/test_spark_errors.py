"""A failure in Spark becomes one line that says what failed, and where."""

import pytest

from downconvert.spark.jobs.spark_errors import in_a_line, is_worker_lost

LOST = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 3 times, most recent failure: "
    "Lost task 0.2 in stage 1.0 (TID 4) ({host} executor {executor}): {rest}"
)
DATA_SOURCE = """[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
    process()
records.errors.CorruptRecordsError: checksum does not match: byte 12

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/worker.py", line 2, in main
downconvert.spark.errors.CorruptSegmentError: /logs/a-0/0.log: checksum does not match: byte 12

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
Caused by: java.io.IOException: Broken pipe
"""
DEFECT = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/worker.py", line 2, in main
    {a["key"]: 1}
KeyError: 'key'

\tat org.apache.spark.Thing.run(Thing.scala:1)
"""
CRASHED = (
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider "
    "setting 'spark.python.worker.faulthandler.enabled' for the better Python traceback.\n\tat x"
)
CUT_OFF = "java.io.IOException: Stream closed\n\tat java.base/java.io.BufferedInputStream.read"


class JvmError(Exception):
    """As Py4JJavaError: the message is that of the JVM's exception."""

    def __init__(self, message: str) -> None:
        super().__init__("An error occurred while calling o1.collect")
        self.java_exception = self
        self.message = message

    def getMessage(self) -> str:  # noqa: N802 - Java's name
        return self.message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (DATA_SOURCE, "/logs/a-0/0.log: checksum does not match: byte 12"),
        (
            LOST.format(host="10.0.0.7", executor="3", rest=DATA_SOURCE),
            "/logs/a-0/0.log: checksum does not match: byte 12 (executor 3 on 10.0.0.7)",
        ),
        (LOST.format(host="10.0.0.7", executor="driver", rest=DEFECT), "KeyError: 'key'"),
        (
            LOST.format(host="h", executor="1", rest=CRASHED),
            "Python worker exited unexpectedly (crashed) (executor 1 on h)",
        ),
        ("Could not parse Master URL: 'moon'", "Could not parse Master URL: 'moon'"),
        ("", "An error occurred while calling o1.collect"),
    ],
)
def test_one_line_says_what_and_where(message: str, expected: str) -> None:
    assert in_a_line(JvmError(message)) == expected


def test_only_a_lost_worker_is_worth_another_try() -> None:
    for rest in (CRASHED, CUT_OFF):
        assert is_worker_lost(
            in_a_line(JvmError(LOST.format(host="h", executor="driver", rest=rest)))
        )
    assert not is_worker_lost(in_a_line(JvmError(DATA_SOURCE)))
