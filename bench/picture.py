"""The picture of the README: the memory that lazy and eager conversion take, over time.

    python -m bench.picture docs/report.png

It prints the two figures, which the README repeats. Chromium takes the picture."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from downconvert.report.page import write_page
from downconvert.report.style import CSS
from records.units import MiB, format_size
from simulator import Options, Result, Workload, generate, simulate
from simulator.report.plots import memory_over_time

from .screenshots import taken

WORKLOAD: Final = "record=100,size=48MiB,seed=1"
OPTIONS: Final = Options(max_bytes=4 * MiB, consumers=12, slow=4, modes=("lazy", "eager"))
SIZE: Final = (1120, 425)  # pixels


@click.command()
@click.argument("picture", type=click.Path(path_type=Path))
def main(picture: Path) -> None:
    """Takes PICTURE."""
    with tempfile.TemporaryDirectory(prefix="picture-") as temporary:
        files = generate(Workload.parse(WORKLOAD), Path(temporary) / "topic-0")
        result = simulate(WORKLOAD, files, OPTIONS)
        page = Path(temporary) / "page.html"
        write_page(page, _page(result))
        taken(page, picture, *SIZE)
    print(_words(result))


def _words(result: Result) -> str:
    lazy, eager = (result.modes[mode].middle(lambda run: run.peak) for mode in OPTIONS.modes)
    return f"Lazy conversion takes {format_size(lazy)} of memory, eager {format_size(eager)}."


def _page(result: Result) -> Iterator[str]:
    yield f'<!doctype html><meta charset="utf-8"><style>{CSS} main {{ padding: 24px }}</style>'
    yield f'<main><p class="conclusion">{_words(result)}</p>'
    yield '<p class="made">16 clients of format v1, four of them slow, fetch 4 MiB each.</p>'
    yield f"{memory_over_time('sender', result.modes)}</main>"


if __name__ == "__main__":
    main()
