"""The common parts of all pages of simulations.

Not here: the frame of a page (downconvert/report/page.py)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby

from simulator.modes import Mode
from simulator.rounds import Rounds

from .costs import FIRST, LATER, Cost, verdict
from .figures import Figure, M, is_compared, share


def tile(words: str, figure: str, beside: str, comparison: tuple[str, bool | None]) -> str:
    """One large figure, at the top of a page."""
    text, is_good = comparison
    css = tone(is_good)
    return (
        f'<div class="tile"><div class="label">{words}</div>'
        f'<div class="figure {css}">{figure}</div>'
        f'<div class="beside">{beside} <b class="{css}">{text}</b></div></div>'
    )


def figure_tile(words: str, figure: Figure[M], modes: Mapping[Mode, Rounds[M]]) -> str:
    """The figure of lazy conversion, with that of eager conversion beside it."""
    lazy, eager = (figure.shown(modes[mode]) for mode in ("lazy", "eager"))
    return tile(words, lazy, f"eager {eager}", figure.comparison(modes))


def tone(is_good: bool | None) -> str:
    """The style's class for a comparison with this result."""
    return {True: "good", False: "bad", None: "same"}[is_good]


def costs_section(costs: Sequence[Cost], rounds: int) -> Iterator[str]:
    """The cost of lazy compared with eager, and the verdict; nothing unless both were run."""
    if not costs:
        return
    words, is_met = verdict(costs, rounds)
    yield "<h3>What lazy costs beside eager</h3>"
    yield '<table class="costs"><thead><tr><th></th><th>lazy</th><th>eager</th><th>ratio</th>'
    yield "<th>wanted</th><th>verdict</th><th>spread</th></tr></thead><tbody>"
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
    yield f'<p class="noise same">{FIRST} {LATER}</p>'


def figures_table(figures: Iterable[Figure[M]], modes: Mapping[Mode, Rounds[M]]) -> Iterator[str]:
    """A figure a row, a mode a column. The last column is the largest spread of all modes."""
    has_comparison = is_compared(modes)
    has_spread = all(len(rounds.each) > 1 for rounds in modes.values())
    columns = 1 + len(modes) + has_comparison + has_spread
    yield "<table><thead><tr><th></th>"
    for mode in modes:
        yield f'<th><i style="background:var(--{mode})"></i>{mode}</th>'
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


def conclusion(
    all_costs: Iterable[tuple[str, Sequence[Cost]]], rounds: int
) -> tuple[str, bool | None]:
    """The results of several simulations, in one sentence."""
    verdicts = [(name, *verdict(costs, rounds)) for name, costs in all_costs if costs]
    if not verdicts:
        return "Lazy and eager conversion were not both measured, so nothing is compared.", None
    tones = {is_good for _, _, is_good in verdicts}
    if len(verdicts) == 1 or len({words for _, words, _ in verdicts}) == 1:
        words = verdicts[0][1]
        return f"{words[0].upper()}{words[1:]}.", verdicts[0][2]
    met = sum(is_good is True for _, _, is_good in verdicts)
    missed = sum(is_good is False for _, _, is_good in verdicts)
    if not met and not missed:
        return (
            f"Inconclusive in each of {len(verdicts)} workloads: the rounds differ too much.",
            None,
        )
    unclear = len(verdicts) - met - missed
    counted = (
        (met, "costs no more than eager in"),
        (missed, "misses a goal in"),
        (unclear, "is not judged, because rounds differ too much, in"),
    )
    parts = [f"{words} {count}" for count, words in counted if count]
    words = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return (
        f"Of {len(verdicts)} workloads, lazy conversion {words}.",
        tones.pop() if len(tones) == 1 else None,
    )


def verdict_lines(failures: Sequence[str], success: str) -> Iterator[str]:
    """Whether all checks held: each failure, or the success."""
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
