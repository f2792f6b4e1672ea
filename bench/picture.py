"""How much memory do lazy and eager conversion take?

    python -m bench.picture docs/report.png

It measures the first workload of `make demo` and takes the picture of the README with Chromium.
Beside the picture it writes the two figures, docs/report.json. The README repeats them, and a test
compares."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from downconvert.report.page import write_page
from downconvert.report.style import CSS
from records.paths import whole_file
from records.units import MiB, format_size
from simulator import Options, Result, Workload, generate, simulate
from simulator.report.plots import memory_over_time

from .screenshots import taken

WORKLOAD: Final = "record=100,size=48MiB,seed=1"
OPTIONS: Final = Options(max_bytes=4 * MiB, consumers=12, slow=4, modes=("lazy", "eager"))
SIZE: Final = (1120, 425)  # pixels


def measured(workload: str = WORKLOAD, options: Options = OPTIONS) -> Result:
    with tempfile.TemporaryDirectory(prefix="picture-") as temporary:
        files = generate(Workload.parse(workload), Path(temporary) / "topic-0")
        return simulate(workload, files, options)


def memory(result: Result) -> dict[str, float]:
    """Bytes that the sender takes above idle, by mode."""
    return {mode: rounds.middle(lambda run: run.peak) for mode, rounds in result.modes.items()}


def sentence(sizes: Mapping[str, float]) -> str:
    lazy, eager = (format_size(sizes[mode]) for mode in OPTIONS.modes)
    return f"Lazy conversion takes {lazy} of memory, eager {eager}."


@click.command()
@click.argument("picture", type=click.Path(path_type=Path))
def main(picture: Path) -> None:
    """Writes PICTURE."""
    result = measured()
    with tempfile.TemporaryDirectory(prefix="picture-") as temporary:
        page = Path(temporary) / "page.html"
        write_page(page, _page(result))
        taken(page, picture, *SIZE)
    with whole_file(picture.with_suffix(".json")) as file:
        file.write(json.dumps(memory(result)).encode() + b"\n")
    print(sentence(memory(result)))


def _page(result: Result) -> Iterator[str]:
    yield f'<!doctype html><meta charset="utf-8"><style>{CSS} main {{ padding: 24px }}</style>'
    yield f'<main><p class="conclusion">{sentence(memory(result))}</p>'
    yield '<p class="made">16 clients of format v1, four of them slow, fetch 4 MiB each.</p>'
    yield f"{memory_over_time('sender', result.modes)}</main>"


if __name__ == "__main__":
    main()
