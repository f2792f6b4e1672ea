"""`downconvert spark`: runs jobs over whole clusters' log directories, on this machine or a
cluster.

Not here: the subcommands (one file each), their common options (spark_job.py), the jobs
(downconvert/spark)."""

from typing import Final

import click

from .lazy_group import Entry, lazy_group

JOBS: Final = {
    "audit": Entry(
        "downconvert.cli.spark_audit",
        "Report formats, the cost of old clients, obstacles to Kafka 4.",
    ),
    "convert": Entry("downconvert.cli.spark_convert", "Rewrite log directories in another format."),
    "export": Entry(
        "downconvert.cli.spark_export",
        "Write records as Parquet, or as a table, by topic and date.",
    ),
    "find": Entry("downconvert.cli.spark_find", "Find records by key: file, byte and offset."),
    "gaps": Entry("downconvert.cli.spark_gaps", "Print which offsets no copy has, and why."),
    "groups": Entry(
        "downconvert.cli.spark_state", "Print groups and their members, from __consumer_offsets."
    ),
    "latest": Entry(
        "downconvert.cli.spark_latest", "Write the last record of each key as Parquet."
    ),
    "offsets": Entry(
        "downconvert.cli.spark_state", "Print committed offsets of groups, from __consumer_offsets."
    ),
    # an experiment, on a higher floor than this package
    "sweep": Entry(
        "simulator.cli.spark_sweep",
        "Simulate a grid of chunk sizes, codecs, records and consumers.",
    ),
    "transactions": Entry(
        "downconvert.cli.spark_state",
        "Print transactional ids and their state, from __transaction_state.",
    ),
}


@click.group(cls=lazy_group(JOBS))
def spark() -> None:
    """Jobs over log directories that are too large for one core, or for one machine.

    \b
    downconvert spark audit /var/kafka --report audit.html
    downconvert spark convert --to-magic 2 /backup/broker-1 /mnt/upgraded
    downconvert spark audit --master spark://host:7077 /mnt/kafka
    spark-submit .../downconvert/__main__.py spark audit /mnt/kafka

    Without --master they run on all cores of this machine, and need only Java. DIRs are log
    directories of brokers, directories of partitions, or directories that contain several of these.
    They may be copies, backups, or mounted.
    """
