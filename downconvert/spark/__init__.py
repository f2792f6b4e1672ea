"""Kafka's segments on Spark: a data source over log directories, and jobs over what it reads.

Importing this package imports neither Spark nor Arrow, which are of the extra `spark`."""
