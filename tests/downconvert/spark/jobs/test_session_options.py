"""Which session is used, with which settings, and who ends it. A builder of this process takes the
place of Spark's."""

import signal
import socket
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from downconvert.spark.jobs import session as sessions
from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.jobs.session import JVM_ENDED, open_session
from downconvert.spark.jobs.variables import REMOTE, SUBMITTED


class Spark:
    """Spark's `SparkSession`, and its builder. `steps`: what was asked of both."""

    def __init__(self) -> None:
        self.builder = self
        self.existing: Any = None
        self.steps: list[tuple[str, ...]] = []
        self.settings: dict[str, str] = {}
        self.start: Callable[[], None] = lambda: None

    def getActiveSession(self) -> Any:  # noqa: N802 - Spark's names
        return self.existing

    def appName(self, name: str) -> "Spark":  # noqa: N802
        return self._noted("name", name)

    def master(self, master: str) -> "Spark":
        return self._noted("master", master)

    def remote(self, remote: str) -> "Spark":
        return self._noted("remote", remote)

    def config(self, key: str, value: str) -> "Spark":
        self.settings[key] = value
        return self

    def getOrCreate(self) -> Any:  # noqa: N802
        self.start()
        return SimpleNamespace(stop=lambda: self.steps.append(("stop",)))

    def _noted(self, *step: str) -> "Spark":
        self.steps.append(step)
        return self


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Spark:
    found = Spark()
    for name in (REMOTE, SUBMITTED):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JAVA_HOME", "/java")
    monkeypatch.setenv("PYSPARK_PYTHON", "python")
    monkeypatch.setattr(sessions, "SparkSession", found)
    monkeypatch.setattr(sessions, "register", lambda _: found.steps.append(("register",)))
    monkeypatch.setattr(sessions, "find_spec", lambda _: object())
    channel = SimpleNamespace(close=lambda: found.steps.append(("close",)))
    ready = SimpleNamespace(result=lambda _: None)
    builder = SimpleNamespace(toChannel=lambda: channel)
    client = SimpleNamespace(DefaultChannelBuilder=lambda _: builder)
    grpc = SimpleNamespace(channel_ready_future=lambda _: ready, FutureTimeoutError=TimeoutError)
    monkeypatch.setitem(sys.modules, "grpc", grpc)
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.client", client)
    return found


@pytest.mark.parametrize("fails", [False, True])
def test_a_session_ends_with_the_block_unless_it_was_there_before(made: Spark, fails: bool) -> None:
    def work() -> None:
        with open_session("a job"):
            if fails:
                raise KeyError("x")

    for existing in (None, SimpleNamespace(stop=lambda: made.steps.append(("stop",)))):
        made.existing = existing
        made.steps.clear()
        if fails:
            with pytest.raises(KeyError):
                work()
        else:
            work()
        asked = [] if existing else [("name", "a job"), ("master", "local[*,3]")]
        assert made.steps == [*asked, ("register",), *([] if existing else [("stop",)])]


@pytest.mark.parametrize(
    ("master", "remote", "variable", "expected"),
    [
        (None, None, None, ("master", "local[*,3]")),
        ("local[2]", None, "sc://other:15002", ("master", "local[2]")),
        (None, None, "sc://other:15002", ("remote", "sc://other:15002")),
        ("sc://one:15002", None, "sc://other:15002", ("remote", "sc://one:15002")),
        (None, "sc://two:15002", "sc://other:15002", ("remote", "sc://two:15002")),
        ("yarn", None, None, ("master", "yarn")),
    ],
)
def test_the_callers_settings_override_the_environment(
    made: Spark,
    monkeypatch: pytest.MonkeyPatch,
    master: str | None,
    remote: str | None,
    variable: str | None,
    expected: tuple[str, str],
) -> None:
    if variable is not None:
        monkeypatch.setenv(REMOTE, variable)
    with open_session("a job", master, remote=remote):
        assert expected in made.steps
        assert len([step for step in made.steps if step[0] in ("master", "remote")]) == 1


def test_a_master_of_spark_submit_is_left_to_it(
    made: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SUBMITTED, "1234")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setattr("shutil.which", lambda _: None)
    with open_session("a job", options={"x": "y"}):
        assert made.steps == [("name", "a job"), ("register",)]
        assert made.settings == sessions.NEEDED | {"x": "y"}


@pytest.mark.parametrize("where", [{"master": "local[2]"}, {"remote": "local[2]"}])
def test_the_callers_options_come_before_the_defaults(made: Spark, where: dict[str, Any]) -> None:
    options = {"spark.driver.memory": "9g", "spark.sql.session.timeZone": "CET", "x": "y"}
    with open_session("a job", options=options, **where):
        assert made.settings == sessions.NEEDED | sessions.SMALL | options


@pytest.mark.parametrize("where", [{"master": "yarn"}, {"remote": "sc://host:15002"}])
def test_a_cluster_has_its_own_sizes(made: Spark, where: dict[str, Any]) -> None:
    with open_session("a job", **where):
        assert made.settings == sessions.NEEDED


def test_a_failed_start_names_the_place_without_its_token(made: Spark) -> None:
    def fail() -> None:
        raise PySparkException("it is full")

    made.start = fail
    places: tuple[tuple[dict[str, Any], str], ...] = (
        ({"remote": "sc://host:15002/;token=secret"}, "sc://host:15002"),
        ({"master": "yarn"}, "yarn"),
    )
    for where, place in places:
        words = f"^Spark does not start on {place}: it is full$"
        with pytest.raises(JobError, match=words), open_session("a job", **where):
            pass
    assert ("register",) not in made.steps

    def end() -> None:
        raise PySparkException("[JAVA_GATEWAY_EXITED] Java gateway process exited")

    made.start = end
    with pytest.raises(JobError) as caught, open_session("a job"):
        pass
    assert str(caught.value) == JVM_ENDED


def test_a_handler_that_spark_sets_stays(made: Spark) -> None:
    def its_own(*_: object) -> None:
        """Cancels Spark's jobs."""

    def set_its_own() -> None:
        signal.signal(signal.SIGINT, its_own)

    before = signal.getsignal(signal.SIGINT)
    try:
        with open_session("a job"):
            assert signal.getsignal(signal.SIGINT) is before
        made.start = set_its_own
        with open_session("a job"):
            assert signal.getsignal(signal.SIGINT) is its_own
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_key_that_is_pressed_while_spark_starts_counts_after_that(made: Spark) -> None:
    before = signal.getsignal(signal.SIGINT)

    def start() -> None:
        signal.raise_signal(signal.SIGINT)
        made.steps.append(("started",))

    made.start = start
    with pytest.raises(KeyboardInterrupt), open_session("a job"):
        pass
    assert made.steps[-1] == ("started",)
    assert signal.getsignal(signal.SIGINT) is before


def test_one_master_of_several_that_answers_is_enough(made: Spark) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody, somebody = (f"127.0.0.1:{one.getsockname()[1]}" for one in (free, there))
        master = f"spark://{nobody},{somebody}"
        with open_session("a job", master):
            assert ("master", master) in made.steps
        connection, _ = there.accept()
        with connection:
            connection.settimeout(60)
            assert connection.recv(1) == b""  # it is not kept
        words = f"^no master answers at spark://{nobody},{nobody} .{nobody}: .*; {nobody}: "
        with pytest.raises(JobError, match=words), open_session("a", f"spark://{nobody},{nobody}"):
            pass


def test_a_server_that_does_not_answer_is_named_and_its_channel_is_closed(
    made: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def result(seconds: float) -> None:
        asked.append(seconds)
        raise TimeoutError

    ready = SimpleNamespace(result=result)
    monkeypatch.setattr(sys.modules["grpc"], "channel_ready_future", lambda _: ready)
    words = r"^no Spark Connect server answers at sc://host:15002 \(asked for 10 seconds\)$"
    remote = "sc://host:15002/;token=secret"
    with pytest.raises(JobError, match=words), open_session("a job", remote=remote):
        pass
    assert (asked, made.steps) == ([10.0], [("close",)])
