"""The examples of docs/spark.md run as they stand."""

import re
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from downconvert.spark.options import Options
from tests.downconvert.storage.logs import batch

from .reading import partition

TEXT: Final = (Path(__file__).parents[3] / "docs" / "spark.md").read_text().partition("## Jobs")[0]
EXAMPLES: Final = re.findall(r"^```python\n((?:.*\n)*?)```$", TEXT, flags=re.MULTILINE)


def test_the_examples_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition(tmp_path / "logs", batch(0, 1, 2) + batch(3, 4), "orders-0")
    partition(tmp_path / "logs", batch(0), "audit-eu-1")
    names = {"spark": spark, "path": str(tmp_path / "logs"), "target": str(tmp_path / "out")}
    try:
        for code in EXAMPLES:
            exec(compile(code, "spark.md", "exec"), names)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert len(EXAMPLES) == 5
    assert "|  orders|        0|    5|" in capsys.readouterr().out
    assert spark.read.parquet(str(tmp_path / "out" / "records")).count() == 6


def test_every_option_is_reported() -> None:
    told = set(re.findall(r"`([a-zA-Z]+)`", TEXT.partition("### Options")[2].partition("```")[0]))
    fields = {name.replace("_", "").lower() for name in Options.__dataclass_fields__}
    renamed = {
        "paths": None,
        "committed": "isolation",
        "assigned": "assign",
        "mustfindtimestamp": "startingoffsetsbytimestampstrategy",
        "starting": "startingoffsets",
        "ending": "endingoffsets",
        "corruptcolumn": "columnnameofcorruptrecord",
        "storesettings": "endpoint",
    }
    expected = {renamed.get(name, name) for name in fields} - {None}
    assert expected <= {name.lower() for name in told}
