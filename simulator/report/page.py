"""The parts that all pages of simulations have. A page is one HTML file: it opens offline, and
nothing in it is loaded from anywhere."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Final

from downconvert.report.style import CSS
from simulator.modes import Mode
from simulator.rounds import Rounds

from .costs import LATER, Cost, verdict
from .figures import Figure, M, is_compared, share
from .plots import COLOURS

_STYLE: Final = """
.costs { margin-top: 4px; }
.verdict { margin: 12px 0 0; }
.noise { margin: 4px 0 0; font-size: 14px; }
"""


def page(
    title: str, lead: str, command: str, parts: Iterable[str], *, style: str = ""
) -> Iterator[str]:
    """A whole page around its sections. title, lead and command are text, parts are HTML."""
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(title)}</title><style>{CSS}{_STYLE}{style}</style></head><body><main>"
    yield f'<h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>'
    yield f"<pre>{escape(command)}</pre>"
    yield from parts
    yield "</main></body></html>\n"


def tile(words: str, figure: str, beside: str, comparison: tuple[str, bool | None]) -> str:
    """One large figure, where a reader looks first."""
    text, is_good = comparison
    return (
        f'<div class="tile"><div class="label">{words}</div><div class="figure">{figure}</div>'
        f'<div class="beside">{beside} <b class="{tone(is_good)}">{text}</b></div></div>'
    )


def figure_tile(words: str, figure: Figure[M], modes: Mapping[Mode, Rounds[M]]) -> str:
    """Lazy, and eager beside it."""
    lazy, eager = (figure.shown(modes[mode]) for mode in ("lazy", "eager"))
    return tile(words, lazy, f"eager {eager}", figure.comparison(modes))


def tone(is_good: bool | None) -> str:
    """The style's class for a comparison that came out so."""
    return {True: "good", False: "bad", None: "same"}[is_good]


def costs_section(costs: Sequence[Cost], rounds: int) -> Iterator[str]:
    """What lazy costs beside eager, and the verdict; nothing where not both were run."""
    if not costs:
        return
    words, is_met = verdict(costs, rounds)
    yield "<h3>What lazy costs beside eager</h3>"
    yield '<table class="costs"><thead><tr><th></th><th>lazy</th><th>eager</th><th>ratio</th>'
    yield "<th>wanted</th><th></th><th>spread</th></tr></thead><tbody>"
    for cost in costs:
        css = tone(cost.is_met if rounds > 1 else None)
        yield (
            f"<tr><td>{cost.label}</td><td>{cost.lazy}</td><td>{cost.eager}</td>"
            f'<td class="{css}">{cost.ratio_text}</td><td>{cost.wanted}</td>'
            f'<td class="{css}">{cost.is_met_text if rounds > 1 else ""}</td>'
            f'<td class="same">{share(cost.spread) if rounds > 1 else ""}</td></tr>'
        )
    yield "</tbody></table>"
    yield f'<p class="verdict {tone(is_met)}">{escape(words)}</p>'
    yield f'<p class="noise same">{LATER}</p>'


def figures_table(figures: Iterable[Figure[M]], modes: Mapping[Mode, Rounds[M]]) -> Iterator[str]:
    """A figure a row, a mode a column; the last column is the largest spread of all modes."""
    has_comparison = is_compared(modes)
    has_spread = all(len(rounds.each) > 1 for rounds in modes.values())
    columns = 1 + len(modes) + has_comparison + has_spread
    yield "<table><thead><tr><th></th>"
    for mode in modes:
        yield f'<th><i style="background:{COLOURS[mode]}"></i>{mode}</th>'
    yield "<th>lazy beside eager</th>" * has_comparison + "<th>spread</th>" * has_spread
    yield "</tr></thead>"
    for group, of_group in groupby(figures, key=lambda figure: figure.group):
        yield f'<tbody><tr class="group"><td colspan="{columns}">{group}</td></tr>'
        for figure in of_group:
            yield f"<tr><td>{figure.label}</td>"
            yield from (f"<td>{figure.shown(rounds)}</td>" for rounds in modes.values())
            if has_comparison:
                words, is_good = figure.comparison(modes)
                yield f'<td class="{tone(is_good)}">{words}</td>'
            if has_spread:
                yield f'<td class="same">{share(figure.spread(modes))}</td>'
            yield "</tr>"
        yield "</tbody>"
    yield "</table>"


def verdict_lines(failures: Sequence[str], success: str) -> Iterator[str]:
    """Whether all checks held: each failure, or what was checked."""
    for failure in failures:
        yield f'<p class="failed">failed: {escape(failure)}</p>'
    if not failures:
        yield f'<p class="held">{escape(success)}</p>'


def how_it_was_measured(modes: Mapping[Mode, str], notes: Iterable[str]) -> Iterator[str]:
    """modes and notes are HTML."""
    yield '<h2>How it was measured</h2><dl class="modes">'
    for mode, words in modes.items():
        yield f"<dt>{mode}</dt><dd>{words}</dd>"
    yield "</dl><ul>"
    yield from (f"<li>{note}</li>" for note in notes)
    yield "</ul>"


def facts(title: str, values: Mapping[str, str]) -> Iterator[str]:
    yield f'<h3>{escape(title)}</h3><dl class="facts">'
    for name, value in values.items():
        yield f"<dt>{name}</dt><dd>{escape(value)}</dd>"
    yield "</dl>"
