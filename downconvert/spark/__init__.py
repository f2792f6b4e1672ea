"""Kafka's segments on Spark: a data source over log directories, and jobs over what it reads.

Importing this imports neither Spark nor Arrow: those are of the extra `spark`, and who only asks
what there is does without."""
