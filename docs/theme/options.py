"""Reads docstrings as they are written here, for the API pages.

A docstring's first paragraph is one line in the tables of what there is. Options are explained as
`name: what it is`, at the docstring's own margin, with further lines indented; Markdown would make
one paragraph of them, so they become a list. Code and examples (`>>>`) become Python's. "Not here:"
is for those who read the file, and is left out; documents that are named become links."""

import re
from typing import Any

import griffe

OPTION = re.compile(r"^([a-z_][a-z0-9_]*(?:, [a-z_][a-z0-9_]*)*): (.*)", re.DOTALL)
INDENT = "    "
DOCUMENT = re.compile(r"\bdocs/([a-z0-9-]+)\.md\b")


def as_markdown(text: str) -> str:
    """A docstring, cleaned of its indentation, as Markdown."""
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    made = [" ".join(paragraphs[0].split("\n"))]
    for paragraph in paragraphs[1:]:
        if not paragraph.startswith("Not here:"):
            made.append(_block(paragraph))
    return DOCUMENT.sub(r"[\1](../\1.md)", "\n\n".join(made))


def _block(paragraph: str) -> str:
    lines = paragraph.split("\n")
    if lines[0].startswith(">>> "):
        return "\n".join(["```pycon", *lines, "```"])
    if lines[0].startswith(INDENT):
        return "\n".join(["```python", *(line.removeprefix(INDENT) for line in lines), "```"])
    items: list[str] = []
    for line in lines:
        if OPTION.match(line) or not items:
            items.append(line)
        else:
            items[-1] += f" {line.strip()}" if OPTION.match(items[0]) else f"\n{line}"
    return "\n".join(map(_item, items))


def _item(text: str) -> str:
    option = OPTION.match(text)
    if option is None:
        return f"{text}\n"
    return f"- {', '.join(f'`{name}`' for name in option[1].split(', '))}: {option[2]}"


class Options(griffe.Extension):
    """Applies it to every docstring that is read."""

    def on_instance(self, *, obj: griffe.Object | griffe.Alias, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
