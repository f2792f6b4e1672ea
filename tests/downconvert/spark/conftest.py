"""One session for all tests on Spark.

Where Java or Spark is missing, these tests are not collected, unless REQUIRE_SPARK is set: then
they fail."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests import object_store
from tests.spark_jvm import quick_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUIRED: Final = os.environ.get("REQUIRE_SPARK", "") not in ("", "0")
MODULES: Final = ("pyspark", "pyarrow", "numpy")
CONNECT_SECONDS: Final = 120  # 15 by default: a busy machine is not to be taken for a dead process


def missing() -> list[str]:
    """The programs that Spark needs and that are missing here."""
    absent = [name for name in MODULES if importlib.util.find_spec(name) is None]
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        absent.append("java")
    return absent


collect_ignore_glob = [] if REQUIRED or not missing() else ["test_*.py"]


def pytest_report_header() -> str:
    absent = ", ".join(missing())
    return f"Spark: {f'not asked, for want of {absent}' if absent else 'asked'}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A session on two cores that knows the data source; or where SPARK_REMOTE names a server, one
    of that."""
    assert not missing(), f"not here: {', '.join(missing())}"
    from pyspark.sql import SparkSession

    from downconvert.spark import register

    if "SPARK_REMOTE" in os.environ:
        session = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
        register(session)
        yield session
        session.stop()
        return
    scratch = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] = str(CONNECT_SECONDS)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers are `python3` of the path otherwise
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", quick_jvm())
        .config("spark.python.authenticate.socketTimeout", f"{CONNECT_SECONDS}s")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def store(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple["object_store.ObjectStore", Path]]:
    """An object store, and the directory that is its bucket `bucket`."""
    if object_store.missing() and not object_store.REQUIRED:
        pytest.skip("neither the store nor Go is here")
    home = tmp_path_factory.mktemp("store")
    (home / "buckets" / "bucket").mkdir(parents=True)
    running = object_store.running(home / "buckets", home / "requests.log")
    with running as found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.environment.items():
            patch.setenv(name, value)
        yield found, home / "buckets" / "bucket"


@pytest.fixture
def store_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Readers find the directories of this machine below `hdfs://`, too."""
    from pyarrow import fs

    from downconvert.spark.stores import file_systems

    monkeypatch.setattr(fs, "HadoopFileSystem", lambda _: fs.LocalFileSystem())
    file_systems.file_system.cache_clear()
    yield
    file_systems.file_system.cache_clear()
