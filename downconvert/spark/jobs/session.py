"""The Spark session for jobs: embedded on this machine, of a cluster, or behind Spark Connect.

Under `spark-submit`, or if the caller names a master, Spark's own configuration applies. Only the
settings that jobs need are added.

Not here: the jobs (audit.py, convert.py, export.py, sweep.py), shipping the package to executors
(shipping.py)."""

import os
import re
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from pyspark.sql import SparkSession

from downconvert.spark import register

from .jobs import JobError
from .spark_errors import OF_SPARK, in_a_line
from .variables import REMOTE, SUBMITTED

# A task whose worker was killed is retried, which local[*] would not do.
LOCAL: Final = "local[*,3]"
JAVA_NEEDED: Final = (
    "Spark needs Java 17 or newer: install it (apt install openjdk-17-jre-headless), or set "
    "JAVA_HOME to where it is"
)
JVM_ENDED: Final = (
    "Spark's JVM ended as it started: it needs Java 17 or newer; DOWNCONVERT_SPARK_LOG=1 shows "
    "what it says"
)
CONNECT_NEEDED: Final = (
    "Spark Connect needs the extra 'connect': pip install 'lazy-downconvert[connect]'"
)
MASTERS: Final = re.compile(r"local(-cluster)?(\[.+\])?|yarn|(spark|k8s)://.+")
STANDALONE: Final = re.compile(r"spark://(.+)")
CONNECT: Final = re.compile(r"sc://.+")
REMOTES: Final = re.compile(r"sc://.+|local(\[.+\])?")
CONNECT_SECONDS: Final = 10.0
LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
SMALL: Final = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.log.level": "ERROR",
    **LOOPBACK,
}
NEEDED: Final = {
    "spark.sql.session.timeZone": "UTC",
    # If native code kills a worker, the executor then reports where.
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
}


@contextmanager
def open_session(
    name: str,
    master: str | None = None,
    options: Mapping[str, str] | None = None,
    *,
    remote: str | None = None,
) -> Iterator[SparkSession]:
    """A session that ends with the block. An existing session stays open.

    `master`: Spark's master, or the URL of a Spark Connect server (`sc://host:15002`). `remote`:
    such a URL. If both are None, the session is that of SPARK_REMOTE, or of spark-submit's master,
    or of this machine. JobError: there is no Java, or the master or server cannot be reached."""
    existing = SparkSession.getActiveSession()
    if remote is None and CONNECT.fullmatch(master or ""):
        master, remote = None, master
    if remote is None and master is None:
        remote = os.environ.get(REMOTE)
    settings = dict(options or {})
    if existing is not None:
        session = existing
    elif remote is not None:
        session = _connected(remote, settings)
    else:
        session = _started(name, master, settings)
    register(session)
    try:
        yield session
    finally:
        if existing is None:
            session.stop()


def _started(name: str, master: str | None, options: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(name)
    settings = dict(NEEDED)
    if SUBMITTED not in os.environ:
        if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
            raise JobError(JAVA_NEEDED)
        master = master or LOCAL
        _check_master(master)
        if master.startswith("local"):
            settings |= SMALL
            # Otherwise workers run the first `python3` in PATH.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master is not None:
        builder = builder.master(master)
    for key, value in (settings | options).items():
        builder = builder.config(key, value)
    return _made(builder, master)


def _made(builder: SparkSession.Builder, place: str | None) -> SparkSession:
    try:
        with _quiet_start(), _later_interrupt():
            return builder.getOrCreate()
    except OF_SPARK as error:
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise JobError(JVM_ENDED) from error
        of = "" if place is None else f" on {place}"
        raise JobError(f"Spark does not start{of}: {in_a_line(error)}") from error


def _connected(remote: str, options: dict[str, str]) -> SparkSession:
    """A session of a Spark Connect server, or of one that is started on this machine (`local[2]`).

    Each process has a session of its own there, so closing one does not close another."""
    if find_spec("grpc") is None:
        raise JobError(CONNECT_NEEDED)
    if not REMOTES.fullmatch(remote):
        raise JobError(f"{remote!r} is not a Spark Connect server: name one as sc://host:15002")
    settings = dict(NEEDED)
    if remote.startswith("local"):
        if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
            raise JobError(JAVA_NEEDED)
        settings |= SMALL
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        _check_server(remote)
    builder = SparkSession.builder.remote(remote)
    for key, value in (settings | options).items():
        builder = builder.config(key, value)
    return _made(builder, _without_token(remote))


def _check_server(remote: str) -> None:
    """JobError: the URL is malformed, or no server answers there.

    Spark itself retries for ten minutes."""
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        channel = DefaultChannelBuilder(remote).toChannel()
    except OF_SPARK as error:
        raise JobError(f"{_without_token(remote)}: {in_a_line(error)}") from error
    try:
        grpc.channel_ready_future(channel).result(CONNECT_SECONDS)
    except grpc.FutureTimeoutError:
        raise JobError(
            f"no Spark Connect server answers at {_without_token(remote)} "
            f"(asked for {CONNECT_SECONDS:.0f} seconds)"
        ) from None
    finally:
        channel.close()


def _without_token(remote: str) -> str:
    """The address in a URL, without its parameters, because one of them may be a token."""
    return remote.partition("/;")[0]


def _check_master(master: str) -> None:
    """JobError: the URL is malformed, or none of the addresses of a standalone cluster's masters
    answers.

    Spark itself retries for a minute, and then raises an error without this reason."""
    if not MASTERS.fullmatch(master):
        raise JobError(
            f"{master!r} is not a master: name one as spark://host:7077, yarn, "
            "k8s://https://host:port, sc://host:15002, or local[4]"
        )
    addresses = STANDALONE.fullmatch(master)
    if addresses is None:
        return
    reasons = []
    for address in addresses[1].split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        except (OSError, ValueError, OverflowError) as error:
            reasons.append(f"{address}: {getattr(error, 'strerror', None) or error}")
        else:
            return
    raise JobError(f"no master answers at {master} ({'; '.join(reasons)})")


@contextmanager
def _later_interrupt() -> Iterator[None]:
    """Delays Ctrl-C until the end of the block, which takes some seconds. KeyboardInterrupt: it was
    pressed.

    An interrupted start of pyspark would leave a JVM behind, which does not end by itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, noted = signal.getsignal(signal.SIGINT), False

    def note(*_: object) -> None:
        nonlocal noted
        noted = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is note:  # pyspark sets its own handler
            signal.signal(signal.SIGINT, before)
    if noted:
        raise KeyboardInterrupt


@contextmanager
def _quiet_start() -> Iterator[None]:
    """Hides the JVM's standard error. At startup this is half a page of warnings. The JVM keeps the
    descriptor, so later output is hidden, too. Failures are in the exceptions that it raises.
    DOWNCONVERT_SPARK_LOG=1 shows all of it."""
    if os.environ.get("DOWNCONVERT_SPARK_LOG"):
        yield
        return
    sys.stderr.flush()
    ours, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        os.close(nothing)
