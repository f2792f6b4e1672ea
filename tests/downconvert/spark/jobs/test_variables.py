"""The environment variables are those that this Spark itself reads and sets."""

from pathlib import Path

import pyspark
import pytest

from downconvert.spark.jobs.variables import REMOTE, SUBMITTED

PYSPARK = Path(pyspark.__file__).parent


@pytest.mark.parametrize(
    ("name", "module"), [(REMOTE, "sql/session.py"), (SUBMITTED, "java_gateway.py")]
)
def test_spark_knows_the_variable(name: str, module: str) -> None:
    assert f'"{name}"' in (PYSPARK / module).read_text()
