"""The common options and the session of the subcommands of `downconvert spark`.

Not here: the subcommands (one file each)."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from downconvert.spark.jobs.variables import REMOTE
from downconvert.spark.stores.patterns import check_paths

from .extras import words_for
from .failure import CommandError
from .terminal import Step, name_the_backend, progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Command = TypeVar("Command", bound=Callable[..., Any])

OF_THE_EXTRA: Final = ("pyspark", "pyarrow", "pandas", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The common options of every job.

    as_json: whether to print only results, as JSON. master, remote, configuration: of Spark; None:
    all cores of this machine, or the settings of spark-submit. topics: names and patterns; empty:
    all."""

    as_json: bool
    master: str | None
    remote: str | None
    configuration: dict[str, str]
    topics: tuple[str, ...] = ()

    @property
    def is_anywhere(self) -> bool:
        """Whether no option says where the job runs."""
        return self.master is None and self.remote is None and REMOTE not in os.environ

    def session(
        self, name: str, paths: Sequence[str]
    ) -> "AbstractContextManager[tuple[SparkSession, Step]]":
        """A session, which shows progress while it works. An error of Spark becomes one line.

        NotADirectoryError: one of the paths to read is not a directory. It is raised before Spark
        starts."""
        if self.master is not None and self.remote is not None:
            raise click.UsageError("name --master or --remote, not both")
        check_paths(paths)
        return open_job(name, self)


def of_topics(command: Command) -> Command:
    """Adds the options of a job over log directories. The command gets them as `job`."""
    return click.option(
        "--topics",
        metavar="NAMES",
        multiple=True,
        callback=_names,
        help="Only these topics, as names or patterns such as orders-* (repeatable, or by commas).",
    )(on_spark(command))


def on_spark(command: Command) -> Command:
    """Adds the options of every job. The command gets them as `job`."""

    @wraps(command)
    def run(**options: Any) -> Any:
        values = {
            field.name: options.pop(field.name) for field in fields(Job) if field.name in options
        }
        return command(job=Job(**values), **options)

    made: Any = run
    for option in (
        click.option(
            "--conf",
            "configuration",
            metavar="KEY=VALUE",
            multiple=True,
            callback=pairs,
            help="A setting of Spark (repeatable).",
        ),
        click.option(
            "--master",
            metavar="URL",
            help="A cluster's master (otherwise all cores of this machine, or what "
            "spark-submit was given).",
        ),
        click.option(
            "--remote",
            metavar="URL",
            help="A Spark Connect server, such as sc://host:15002 (otherwise $SPARK_REMOTE).",
        ),
        click.option("--json", "as_json", is_flag=True, help="Results as JSON, and nothing else."),
    ):
        made = option(made)
    return cast(Command, made)


def pairs(
    _context: click.Context, _option: click.Parameter, texts: Sequence[str]
) -> dict[str, str]:
    """A click callback for the texts of an option KEY=VALUE."""
    for text in texts:
        if "=" not in text:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE")
    return dict(text.split("=", 1) for text in texts)


def _names(
    _context: click.Context, _option: click.Parameter, texts: Sequence[str]
) -> tuple[str, ...]:
    """The names and patterns in the texts of --topics."""
    return tuple(name.strip() for text in texts for name in text.split(",") if name.strip())


@contextmanager
def open_job(name: str, job: Job) -> "Iterator[tuple[SparkSession, Step]]":
    if any(find_spec(module) is None for module in OF_THE_EXTRA):
        raise CommandError(f"{words_for('pyspark')}, and Java 17 or newer")
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    from downconvert.spark.jobs.jobs import JobError
    from downconvert.spark.jobs.session import open_session
    from downconvert.spark.jobs.spark_errors import OF_SPARK, in_a_line

    name_the_backend()
    try:
        with progress() as step, _warnings_as_lines():
            step("start Spark", 0, 1)
            with open_session(
                f"downconvert {name}", job.master, job.configuration, remote=job.remote
            ) as session:
                yield session, step
    except JobError as error:
        raise CommandError(str(error)) from None
    except OF_SPARK as error:
        raise CommandError(
            f"{name}: {in_a_line(error)}; DOWNCONVERT_SPARK_LOG=1 shows Spark's own messages"
        ) from None


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Prints each warning of a job as one line, without the place in the code."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        click.echo(f"downconvert: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
