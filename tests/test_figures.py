"""Figures that more than one page states are the same on all of them."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
PAGES: Final = {
    path.name: path.read_text() for path in (*ROOT.glob("docs/*.md"), ROOT / "README.md")
}

# What is stated, and how; the group is the figure.
FIGURES: Final = {
    "memory of lazy conversion": r"[Ll]azy conversion takes ([\d.]+ [KM]iB)",
    "memory of eager conversion": (
        r"[Ll]azy conversion takes [\d.]+ [KM]iB(?: of memory)?, eager ([\d.]+ [KM]iB)"
    ),
    "time of exact sizes": r"cost(?:s)? ([\d.]+ to [\d.]+) times the time where",
    "old clients that were run": r"(\d+) combinations of (?:real )?client, version and mode",
    "memory inside a batch": r"(64 KiB, and at most 1 MiB more)",
}


@pytest.mark.parametrize("what", FIGURES)
def test_a_figure_is_the_same_on_every_page(what: str) -> None:
    found = {
        (name, figure)
        for name, text in PAGES.items()
        for figure in re.findall(FIGURES[what], " ".join(text.split()))
    }
    assert found, "no page states it any more"
    assert len({figure for _, figure in found}) == 1, sorted(found)


def test_the_first_example_is_the_same_on_the_first_page_of_the_site() -> None:
    def example(text: str) -> str:
        return text[text.index("```python") : text.index("```\n", text.index("It prints:") + 20)]

    assert example(PAGES["index.md"]) == example(PAGES["README.md"])
