"""Spark finds the format by itself, and `spark-sql` reads tables of it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyspark
import pytest

from tests.downconvert.storage.logs import batch
from tests.spark_jvm import quick_jvm

from .reading import partition

ROOT: Final = Path(__file__).parents[3]
QUIET: Final = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.log.level": "ERROR",
}
SCRIPT: Final = """
CREATE TABLE t USING `kafka-segments` OPTIONS (path '{path}', topics 'orders');
SELECT concat('rows: ', count(*)) FROM t;
"""


def test_importing_it_imports_nothing_but_spark() -> None:
    """One module that cannot be imported would hide the data sources of all others."""
    code = (
        "import sys; sys.modules.update(pyarrow=None, numpy=None, downconvert=None); "
        "import pyspark_kafka_segments as m; print(m.DefaultSource.name())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ran.stdout == "kafka-segments\n"


@pytest.mark.timeout(900)
def test_spark_sql_reads_a_table_of_segments(tmp_path: Path) -> None:
    partition(tmp_path / "logs", batch(0, 1, 2), "orders-0")
    partition(tmp_path / "logs", batch(0), "other-0")
    home = Path(pyspark.__file__).parent
    quiet = QUIET | {"spark.driver.extraJavaOptions": quick_jvm()}
    settings = [part for item in quiet.items() for part in ("--conf", "=".join(item))]
    ran = subprocess.run(
        [home / "bin" / "spark-sql", *settings, "-e", SCRIPT.format(path=tmp_path / "logs")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=800,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home)},
    )
    assert "rows: 3" in ran.stdout, ran.stderr
