"""A warning in a process that Spark starts becomes a warning in the driver."""

import socket
import time
import warnings
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from downconvert.spark import notices
from tests.downconvert.storage.logs import batch, segment

SECONDS = 60.0


def warned(found: list[warnings.WarningMessage], text: str, count: int) -> bool:
    """Whether so many warnings come that say so."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if sum(text in str(one.message) for one in found) >= count:
            return True
        time.sleep(0.05)
    return False


def test_each_query_warns_of_lost_records_in_the_driver(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As it is planned, where copies differ, and in tasks, where offsets are not there."""
    for name, offsets, epoch in (("b1", (0, 1, 2), 0), ("b2", (0, 1), 3)):
        (tmp_path / name).mkdir()
        segment(tmp_path / name / "a-0", 0, batch(*offsets, leader_epoch=epoch))
    (tmp_path / "b2" / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 1\n")
    (tmp_path / "gap").mkdir()
    segment(tmp_path / "gap" / "b-0", 0, batch(0, 1))
    segment(tmp_path / "gap" / "b-0", 5, batch(5))
    source = spark.read.format("kafka-segments").option("failOnDataLoss", "false")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for count in (1, 2):
            assert source.load(str(tmp_path)).count() == 5
            assert warned(found, "copies of a-0 differ", count)
            assert warned(found, "b-0: offsets 2 up to 5 are missing", count)
    assert "differ" not in capfd.readouterr().err


def test_a_process_of_spark_sends_our_warnings_to_the_driver_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(notices, "is_sparks", lambda: True)
    monkeypatch.setenv(notices.PLACE, str(tmp_path / "socket"))
    with warnings.catch_warnings(), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as driver:
        warnings.showwarning = lambda message, *_, **__: shown.append(str(message))
        driver.bind(str(tmp_path / "socket"))
        driver.settimeout(60)
        notices.forward.__wrapped__()
        ours = f"{notices.OURS}/logs/union.py"
        for text, file in (("first", ours), ("other", "/somewhere.py"), ("second", ours)):
            warnings.warn_explicit(text, RuntimeWarning, file, 1, "downconvert.spark.logs.union")
        assert [driver.recv(100) for _ in range(2)] == [b"first", b"second"]
        assert shown == ["other"]
        driver.close()
        warnings.warn_explicit("third", RuntimeWarning, ours, 1, "downconvert.spark.logs.union")
    assert shown == ["other", "third"]  # nobody hears it
