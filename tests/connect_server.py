"""A Spark Connect server on loopback, in a process of its own, for as long as a test needs it.

    with running(directory) as url:
        SparkSession.builder.remote(url)

It is a part of PySpark, which starts it with Java."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from .ports import LOOPBACK, free_ports, wait_for_server
from .spark_jvm import quick_jvm

START_SECONDS: Final = 240.0
CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
ROOT: Final = Path(__file__).parents[1]
SETTINGS: Final = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.connect.grpc.binding.address": LOOPBACK,
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


@contextmanager
def running(directory: Path, environment: dict[str, str] | None = None) -> Iterator[str]:
    """The server's URL. It and its Python workers find this project where the tests do.

    `directory`: where it keeps what it writes. `environment`: what it is to have besides."""
    import pyspark

    (port,) = free_ports(1)
    home = Path(pyspark.__file__).parent
    settings = SETTINGS | {
        "spark.driver.extraJavaOptions": quick_jvm(),
        "spark.connect.grpc.binding.port": str(port),
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    log = directory / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                home / "bin" / "spark-submit",
                "--master",
                "local[2]",
                *options,
                "--class",
                CLASS,
                "spark-internal",
            ],
            stdout=output,
            stderr=output,
            cwd=directory,
            start_new_session=True,  # with it end its workers
            env=os.environ
            | {"SPARK_AUTH_SOCKET_TIMEOUT": "120"}  # a busy machine is not a dead worker
            | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "SPARK_HOME": str(home)}
            | (environment or {}),
        )
    try:
        wait_for_server(port, process, log.read_text, START_SECONDS)
        yield f"sc://{LOOPBACK}:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
