"""What the subcommands of `downconvert spark` share: their options, and the session they run in.

Not here: the subcommands (one file each)."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from .extras import words_for
from .failure import CommandError
from .terminal import Step, name_the_backend, progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Command = TypeVar("Command", bound=Callable[..., Any])

OF_THE_EXTRA: Final = ("pyspark", "pyarrow", "pandas", "numpy")


def of_topics(command: Command) -> Command:
    """The options of a job over log directories."""
    return on_spark(
        click.option(
            "--topics",
            metavar="NAMES",
            multiple=True,
            help="Only these: names or patterns (orders-*); several times, or with commas.",
        )(command)
    )


def on_spark(command: Command) -> Command:
    """The options that every job has."""
    for option in (
        click.option(
            "--conf",
            "configuration",
            metavar="KEY=VALUE",
            multiple=True,
            callback=_configuration,
            help="A setting of Spark's; several times if you like.",
        ),
        click.option(
            "--master",
            metavar="URL",
            help="A cluster's master. By default all cores of this machine, or what "
            "spark-submit was given.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Results as JSON, and nothing else."),
    ):
        command = option(command)
    return command


def _configuration(
    _context: click.Context, _option: click.Parameter, pairs: Sequence[str]
) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


def names_of(topics: Sequence[str]) -> tuple[str, ...]:
    """The names and patterns in the texts of --topics."""
    return tuple(name.strip() for text in topics for name in text.split(",") if name.strip())


@contextmanager
def open_job(
    name: str, master: str | None, configuration: dict[str, str]
) -> "Iterator[tuple[SparkSession, Step]]":
    """A session, and progress while it works. An error of Spark becomes one line."""
    if any(find_spec(module) is None for module in OF_THE_EXTRA):
        raise CommandError(f"{words_for('pyspark')}, and Java 17 or newer")
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from downconvert.spark.jobs import JobError
    from downconvert.spark.session import open_session
    from downconvert.spark.spark_errors import in_a_line

    name_the_backend()
    try:
        with progress() as step, _warnings_as_lines():
            step("start Spark", 0, 1)
            with open_session(f"downconvert {name}", master, configuration) as session:
                yield session, step
    except JobError as error:
        raise CommandError(str(error)) from None
    except (PySparkException, Py4JError) as error:
        raise CommandError(
            f"{name}: {in_a_line(error)}; DOWNCONVERT_SPARK_LOG=1 shows Spark's own messages"
        ) from None


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Prints the warnings of a job as one line each, without the place in the code."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        click.echo(f"downconvert: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
