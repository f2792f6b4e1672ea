"""The common parts of reports: a conclusion, their origin, and a layout for every screen."""

import re
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest

from bench.screenshots import LOOKS, browser, pictures
from downconvert.report.page import framed, labelled, write_page
from downconvert.report.style import CSS
from tests.programs import REQUIRED

TABLE = (
    "<table><thead><tr><th>client</th><th><i></i>requests</th><th></th></tr></thead>"
    "<tbody><tr class='group'><td colspan='3'>old</td></tr>"
    "<tr><td>app</td><td class='x'>3</td><td>!</td></tr></tbody></table>"
)


def test_the_conclusion_comes_before_date_version_and_command() -> None:
    page = "".join(
        framed("A title", "It is <so>.", "downconvert x 'a b'", ["<p>parts</p>"], is_good=False)
    )
    text = re.sub(r"<[^>]*>", "\n", page[page.index("<main>") :])
    lines = [line for line in text.split("\n") if line]
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    assert lines[:2] == ["A title", "It is &lt;so&gt;."]
    assert lines[2].startswith(f"Made on {day} at ")
    assert version("lazy-downconvert") in lines[2]
    assert lines[3:] == ["downconvert x &#x27;a b&#x27;", "parts"]
    assert '<p class="conclusion bad">' in page


def test_each_cell_of_a_table_has_its_heading_for_a_phone() -> None:
    found = labelled(f"<p><td></p>{TABLE.replace(chr(39), chr(34))}")
    assert '<td class="x" data-label="requests">3</td>' in found
    assert found.count("data-label") == 1  # not the first of a row, nor one without a heading
    assert found.startswith("<p><td></p>")


def test_the_stylesheet_has_a_dark_and_a_narrow_side_and_loads_nothing() -> None:
    assert "prefers-color-scheme: dark" in CSS
    assert "max-width: 760px" in CSS
    assert "url(" not in CSS
    light, dark = (set(re.findall(r"(--[\w-]+):", part)) for part in CSS.split("@media")[:2])
    assert dark == light


@pytest.mark.skipif(browser() is None and not REQUIRED, reason="no Chromium here")
def test_a_browser_takes_a_picture_of_each_look(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_page(page, framed("A title", "It is so.", "downconvert", [TABLE]))
    made = list(pictures(page, tmp_path, height=400))
    assert [path.name for path in made] == [f"page-{look}.png" for look in LOOKS]
    assert len({path.read_bytes() for path in made}) == len(LOOKS)


def test_a_wide_cell_counts_as_its_columns_and_has_no_heading() -> None:
    head = "<thead><tr><th>a</th><th>b</th><th>c</th><th>d</th></tr></thead>"
    row = '<tr><td>1</td><td colspan="2">2</td><td>4</td></tr>'
    found = labelled(f"<table>{head}{row}</table>")
    assert '<td>1</td><td colspan="2">2</td><td data-label="d">4</td>' in found
