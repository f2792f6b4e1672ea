"""Figures that more than one page states are the same on all of them."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
PAGES: Final = {
    path.name: path.read_text() for path in (*ROOT.glob("docs/*.md"), *ROOT.glob("*.md"))
}

# What is stated, and how; the group is the figure.
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


def test_the_first_example_is_the_same_on_the_first_page_of_the_site() -> None:
    def example(text: str) -> str:
        return text[text.index("```python") : text.index("```\n", text.index("It prints:") + 20)]

    assert example(PAGES["index.md"]) == example(PAGES["README.md"])
