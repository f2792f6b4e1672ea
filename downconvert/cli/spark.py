"""`downconvert spark`: jobs over whole clusters' log directories, on this machine or a cluster.

Not here: the subcommands (one file each), what they share (spark_job.py),
the jobs (downconvert/spark)."""

from importlib import import_module
from typing import Final

import click

JOBS: Final = {
    "audit": "downconvert.cli.spark_audit",
    "convert": "downconvert.cli.spark_convert",
    "export": "downconvert.cli.spark_export",
    "find": "downconvert.cli.spark_find",
    "groups": "downconvert.cli.spark_state",
    "latest": "downconvert.cli.spark_latest",
    "offsets": "downconvert.cli.spark_state",
    "sweep": "simulator.cli.spark_sweep",  # an experiment: they live above this package
    "transactions": "downconvert.cli.spark_state",
}


class _Jobs(click.Group):
    """Loads a subcommand's file when the subcommand runs, or when help names it."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(JOBS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in JOBS:
            return None
        command = getattr(import_module(JOBS[name]), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Jobs, short_help="Audit, convert, export and search log directories on Spark.")
def spark() -> None:
    """Jobs over log directories that are too large for one core, or for one machine.

    Without --master they run on all cores of this machine, and need nothing but Java. DIRs are
    brokers' log directories, partitions' directories, or directories above several of them:
    copied, backed up, or mounted.

    \b
    downconvert spark audit /var/kafka --report audit.html
    downconvert spark convert --to-magic 2 /backup/broker-1 /mnt/upgraded
    downconvert spark audit --master spark://host:7077 /mnt/kafka
    spark-submit .../downconvert/__main__.py spark audit /mnt/kafka
    """
