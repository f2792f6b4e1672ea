"""Figures that more than one page states are the same on all of them, and in their source."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from bench.picture import WORKLOAD, sentence

ROOT: Final = Path(__file__).parent.parent
PAGES: Final = {
    path.name: path.read_text() for path in (*ROOT.glob("docs/*.md"), *ROOT.glob("*.md"))
}

# Each statement, and its form. The group is the figure.
FIGURES: Final = {
    "memory of lazy conversion": r"[Ll]azy conversion takes ([\d.]+ [KM]iB)",
    "memory of eager conversion": (
        r"[Ll]azy conversion takes [\d.]+ [KM]iB(?: of memory)?, eager ([\d.]+ [KM]iB)"
    ),
    "memory of one send": (
        r"send (?:of uncompressed records|then) (?:holds|\| 4 . `chunk_size` =) ([\d.]+ [KM]iB)"
    ),
    "memory inside a batch": r"([\d.]+ KiB, and at most [\d.]+ MiB more)",
    "time of exact sizes": r"costs? ([\d.]+ to [\d.]+) times the time",
    "old clients that were run": r"(\d+) combinations(?! of client, version and setting)",
    "the batch that Kafka needs much memory for": r"(\d+ MB of (?:Java )?heap)",
}


@pytest.mark.parametrize("what", FIGURES)
def test_a_figure_is_the_same_on_every_page(what: str) -> None:
    found = {
        (name, figure)
        for name, text in PAGES.items()
        for figure in re.findall(FIGURES[what], " ".join(text.split()))
    }
    assert len({name for name, _ in found}) > 1, f"one page, or none, states it: {found}"
    assert len({figure for _, figure in found}) == 1, sorted(found)


@pytest.mark.parametrize("page", ["README.md", "performance.md"])
def test_the_figures_beside_the_picture_are_those_that_it_was_made_of(page: str) -> None:
    sizes = json.loads((ROOT / "docs/report.json").read_text())
    assert f"*{sentence(sizes)} " in " ".join(PAGES[page].split())


def test_the_demo_measures_what_the_picture_shows() -> None:
    makefile = (ROOT / "Makefile").read_text()
    size = re.search(r"call DEMO_WORKLOADS,(\w+)", makefile)
    assert size is not None
    line = re.search(r"--generate (record=\S+)", makefile)
    assert line is not None
    assert line[1].replace("$(1)", size[1]) == WORKLOAD
