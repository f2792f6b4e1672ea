"""A sweep runs in the session that all tests on Spark share, and where they do."""

from tests.downconvert.spark.conftest import collect_ignore_glob, spark

__all__ = ["collect_ignore_glob", "spark"]
