"""The start of a session hides what a JVM writes to standard error, and nothing else. Without a
JVM."""

import os
from contextlib import suppress

import pytest

from downconvert.spark.jobs.session import _quiet_start


@pytest.mark.parametrize("fails", [False, True])
def test_standard_error_is_hidden_while_a_session_starts_and_no_file_stays_open(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.delenv("DOWNCONVERT_SPARK_LOG", raising=False)
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for number in range(3):
        with suppress(OSError), _quiet_start():
            os.write(2, b"WARNING: Using incubator modules\n")
            if fails:
                raise OSError("no Java")
        os.write(2, b"ours %d\n" % number)
    # Files of earlier tests may be closed meanwhile.
    assert set(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
    assert capfd.readouterr().err == "ours 0\nours 1\nours 2\n"


def test_a_variable_shows_hidden_output(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOWNCONVERT_SPARK_LOG", "1")
    with _quiet_start():
        os.write(2, b"of the JVM\n")
    assert capfd.readouterr().err == "of the JVM\n"
