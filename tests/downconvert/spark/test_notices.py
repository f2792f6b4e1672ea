"""A warning in a process that Spark starts becomes a warning in the driver."""

import os
import socket
import stat
import time
import warnings
from pathlib import Path
from queue import Queue

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


def test_only_this_user_can_send_warnings_to_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, shown = tmp_path / "notices" / "socket", Queue[str]()
    monkeypatch.setenv(notices.PLACE, str(place))
    before = os.umask(0)
    try:
        notices.listen.__wrapped__()
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    with warnings.catch_warnings(), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as task:
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_, **__: shown.put(str(message))
        task.connect(str(place))
        for text in (b"records are missing", b"\xff", b"no checksum"):
            task.send(text)
        found = [shown.get(timeout=SECONDS) for _ in range(3)]
    assert found == ["records are missing", "\ufffd", "no checksum"]


def test_a_driver_that_cannot_listen_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(notices.PLACE, str(tmp_path / "absent" / "notices" / "socket"))
    notices.listen.__wrapped__()
    monkeypatch.delenv(notices.PLACE)
    notices.listen.__wrapped__()
    assert list(tmp_path.iterdir()) == []
