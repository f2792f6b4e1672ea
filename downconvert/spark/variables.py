"""Variables of the environment that are Spark's, by its own names; known also where it is not
installed."""

from typing import Final

REMOTE: Final = "SPARK_REMOTE"  # a server of Spark Connect
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which has started the JVM
