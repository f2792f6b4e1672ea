"""How many times as fast as Kafka's own converter is this project's?

Both convert the same fetches of the same segment lazily, in turns on one core, into a target that
accepts everything at once. Kafka's LazyDownConversionRecords runs in a JVM that was warmed up, for
which it needs up to 20 rounds. This project's converter runs from Python with its defaults: exact
sizes, and a response in one call to the descriptor of /dev/null. The result is records converted
per second. Source bytes per second would flatter Kafka, because it stops at the promised size.

    python -m bench.conversion --shape none-100 --shape mixed --rounds 30 --markdown

Not here: the contest itself (compare.py), checking the contenders' output (check.py)."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from records.backend import NAME
from records.units import KiB

from .contenders.kafka_jvm import UnavailableError, class_path
from .measuring.check import WrongOutputError
from .measuring.compare import Contest, Options
from .measuring.report import as_markdown, as_table
from .measuring.rounds import one_core
from .measuring.segments import CACHE, SHAPES

ROUNDS: Final = 30
WARM_UP: Final = 30  # none-1000 needs up to 19 before its JVM runs at full speed
SMOKE_SIZE: Final = 256 * KiB


def as_size(_: object, __: object, texts: tuple[str, ...]) -> tuple[int, ...]:
    """`16KiB`, `1MiB` or a plain number; several are separated by commas."""
    units = {"KiB": KiB, "MiB": KiB * KiB}
    sizes = []
    for text in ",".join(texts).split(","):
        unit = text[-3:] if text[-3:] in units else ""
        number = text.removesuffix(unit)
        if not number.isdecimal():
            raise click.BadParameter(f"{text!r} is not a size such as 16KiB")
        sizes.append(int(number) * units.get(unit, 1))
    return tuple(sizes)


def one_size(context: object, parameter: object, text: str) -> int:
    return as_size(context, parameter, (text,))[0]


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    type=click.Choice(tuple(SHAPES)),
    help="Several may be given; else all.",
)
@click.option(
    "--chunk",
    "chunks",
    multiple=True,
    default=("16KiB,128KiB",),
    callback=as_size,
    show_default=True,
)
@click.option(
    "--fetch-bytes",
    default="1MiB",
    callback=one_size,
    show_default=True,
    help="How much of the segment is a fetch.",
)
@click.option("--rounds", default=ROUNDS, show_default=True, help="Counted rounds of each.")
@click.option("--warm-up", default=WARM_UP, show_default=True, help="Rounds of a JVM before that.")
@click.option("--to-magic", default=1, type=click.IntRange(0, 1), show_default=True)
@click.option("--kafka/--no-kafka", default=True, help="Kafka's own classes.")
@click.option("--eager", is_flag=True, help="Kafka's eager conversion, too.")
@click.option("--reference", is_flag=True, help="Time the reference kernel, too.")
@click.option(
    "--clock",
    default="wall",
    type=click.Choice(("wall", "cpu")),
    help="CPU time helps where others use the core, too.",
)
@click.option("--smoke", is_flag=True, help="A small size: that it runs, and converts rightly.")
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path), help="Every round, for other programs."
)
@click.option(
    "--segments",
    "directory",
    default=CACHE,
    type=click.Path(path_type=Path),
    help="Where segments are kept.",
)
@click.option("--markdown", is_flag=True, help="The table as the documents have it.")
def main(
    shapes: tuple[str, ...],
    chunks: tuple[int, ...],
    fetch_bytes: int,
    rounds: int,
    warm_up: int,
    to_magic: int,
    kafka: bool,
    eager: bool,
    reference: bool,
    clock: str,
    smoke: bool,
    json_path: Path | None,
    directory: Path,
    markdown: bool,
) -> None:
    if NAME != "native" and not reference:
        raise click.UsageError(
            "the native kernel is not built, and the reference is slow by design: "
            "build it (make build), or time the reference with --reference"
        )
    if kafka:
        try:
            class_path()
        except UnavailableError as error:
            click.echo(f"Without Kafka's own classes: {error}.", err=True)
            kafka = False
    options = Options(
        rounds=2 if smoke else rounds,
        warm_up=1 if smoke else warm_up,
        chunks=chunks,
        fetch_size=fetch_bytes,
        size=SMOKE_SIZE if smoke else None,
        directory=directory,
        to_magic=to_magic,
        cpu_clock=clock == "cpu",
        with_kafka=kafka,
        with_eager=eager,
        with_reference=reference,
    )
    results = []
    try:
        with one_core():
            for name in shapes or SHAPES:
                click.echo(f"{name} ...", err=True)
                results.append(Contest(SHAPES[name], options).run())
    except WrongOutputError as error:
        click.echo(f"wrong output: {error}", err=True)
        sys.exit(1)
    if json_path is not None:
        json_path.write_text(json.dumps([asdict(result) for result in results], indent=1))
    click.echo(as_markdown(results) if markdown else as_table(results))


if __name__ == "__main__":
    main()
