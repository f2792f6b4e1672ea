"""Experiments are asked for as the other subcommands are: by the same fixtures."""

from tests.downconvert.cli.conftest import command, damaged, no_log, segment, torn

__all__ = ["command", "damaged", "no_log", "segment", "torn"]
