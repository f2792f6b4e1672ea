"""Options of a JVM for Spark that lives for minutes: quick to start rather than in the long run.

It takes Spark's classes from an archive, not from their JARs, and starts with half the CPU time.
A JVM ignores an archive of other JARs, or of the same ones with other times. So each installation
has its own. The first caller writes the archive into `build/`, and needs Java."""

import subprocess
import sys
import tempfile
from functools import cache
from os import environ
from pathlib import Path
from typing import Final
from zlib import crc32

from .fetching import once

BUILD: Final = Path(__file__).parents[1] / "build"
# More time for compiling hot methods again would not come back.
QUICK: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
# Classes that most tests need are loaded: those of queries, of files, and of data for Python.
PROGRAM: Final = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.range(9).selectExpr("id", "id % 3 AS third")
rows.write.parquet(sys.argv[1])
spark.read.parquet(sys.argv[1]).groupBy("third").count().orderBy("third").toArrow()
"""


@cache
def quick_jvm() -> str:
    import pyspark

    spark = Path(pyspark.__file__).parent
    jars = sorted((jar.name, jar.stat().st_mtime_ns) for jar in (spark / "jars").iterdir())
    home = BUILD / f"spark-{pyspark.__version__}.{crc32(repr(jars).encode()):08x}.classes"
    with once(home) as new, tempfile.TemporaryDirectory(prefix="spark-") as directory:
        if new:
            program = Path(directory, "program.py")
            program.write_text(PROGRAM)
            settings = {
                "spark.master": "local[2]",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.ui.enabled": "false",
                "spark.local.dir": directory,
                "spark.driver.extraJavaOptions": f"{QUICK} {_archive('ArchiveClassesAtExit', new)}",
            }
            options = [word for item in settings.items() for word in ("--conf", "=".join(item))]
            subprocess.run(
                [spark / "bin" / "spark-submit", *options, program, f"{directory}/rows"],
                cwd=directory,
                env=environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark)},
                capture_output=True,
                check=True,
            )
    return f"{QUICK} {_archive('SharedArchiveFile', home)} -Xshare:auto"


def _archive(option: str, home: Path) -> str:
    return f'"-XX:{option}={home / "spark.jsa"}"'
