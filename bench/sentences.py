"""Is any sentence or line of the documents too long? `make docs` runs this before it builds.

    python -m bench.sentences docs/*.md

Tables, code, links' definitions and HTML are left out."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

WORDS_MAX: Final = 35
COLUMNS_MAX: Final = 120
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[)\"*_]*\s+(?=[A-Z`*\[(\"0-9])")
_CODE: Final = re.compile(r"`[^`]*`|\]\([^)]*\)|\w+://\S+")  # code and links cannot be wrapped
_FENCE: Final = re.compile(r"^\s*(```|~~~)")
_ITEM: Final = re.compile(r"^\s*(?:[*+-]|\d+\.)\s+")


def paragraphs(text: str) -> Iterator[str]:
    """Prose: each paragraph, heading and item of a list."""
    found: list[str] = []
    for line in _prose_lines(text):
        if not line.strip() or _ITEM.match(line) or line.startswith("#"):
            if found:
                yield " ".join(found)
            found = []
        if line.strip():
            found.append(_ITEM.sub("", line).strip())
    if found:
        yield " ".join(found)


def long_sentences(text: str) -> list[str]:
    """The sentences of more than WORDS_MAX words. A link counts as its words, and code as one
    word."""
    found = []
    for paragraph in paragraphs(text):
        plain = re.sub(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", paragraph)
        plain = re.sub(r"`[^`]*`", "`code`", plain)
        found += [one for one in _SENTENCE_END.split(plain) if len(one.split()) > WORDS_MAX]
    return found


def long_lines(text: str) -> list[int]:
    """The numbers of lines of more than COLUMNS_MAX columns, except in tables, links and code."""
    return [
        number
        for number, line in enumerate(_prose_lines(text, keep=True), 1)
        if len(line) > COLUMNS_MAX and len(_CODE.sub("", line)) > COLUMNS_MAX / 2
    ]


def _prose_lines(text: str, *, keep: bool = False) -> Iterator[str]:
    """All lines except tables, code, HTML, links' definitions and front matter. `keep`: yields
    empty lines in place of these."""
    in_code = in_front_matter = False
    for number, line in enumerate(text.split("\n")):
        if number == 0 and line == "---":
            in_front_matter = True
        elif in_front_matter:
            in_front_matter = line != "---"
        elif _FENCE.match(line):
            in_code = not in_code
        elif not in_code and not re.match(r"\s*\||    \S|\s*<|\[[^\]]+\]: ", line):
            yield line
            continue
        if keep or not line.strip():
            yield ""


def main(paths: list[str]) -> int:
    """Prints long sentences and lines."""
    failed = False
    for path in map(Path, paths):
        text = path.read_text()
        sentences, lines = long_sentences(text), long_lines(text)
        if sentences:
            failed = True
            for one in sentences:
                print(f"{path}: {len(one.split())} words: {one[:100]}…")
        if lines:
            failed = True
            print(f"{path}: lines of more than {COLUMNS_MAX} columns: {lines}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
