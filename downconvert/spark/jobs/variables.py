"""Names of Spark's environment variables, also for use without Spark installed."""

from typing import Final

REMOTE: Final = "SPARK_REMOTE"  # the address of a Spark Connect server
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which has started the JVM
