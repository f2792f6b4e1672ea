"""The documents have no line and no sentence that is too long."""

from pathlib import Path

import pytest

from bench.sentences import long_lines, long_sentences

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_sentence_and_no_line_that_is_too_long(page: Path) -> None:
    text = page.read_text()
    assert not long_sentences(text)
    assert not long_lines(text)


def test_long_sentences_and_lines_are_found_in_text_only() -> None:
    words = "word " * 36
    assert long_sentences(f"{words}.\n") != []
    assert long_sentences(f"{'word ' * 20}end. {'More ' * 20}.\n") == []
    assert long_sentences(f"* {'word ' * 20}\n* {'word ' * 20}\n") == []
    assert long_sentences(f"```\n{words}\n```\n| {words} |\n    {words}\n") == []
    assert long_sentences(f"{'word ' * 20}; `and` {'more ' * 20}: 1 {'more ' * 5}.\n") != []
    assert long_sentences("`" + words + "` is one word.\n") == []
    assert long_lines("x " * 61 + "\n") == [1]
    assert long_lines("| " + "x " * 61 + "|\n") == []
    assert long_lines("`" + "x" * 130 + "`\n") == []
