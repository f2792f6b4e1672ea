"""Shows when the gateway can be removed, by the last time of an old version for each topic and
principal.

Not here: the current old clients (report_groups.py)."""

import time
from collections.abc import Iterable
from typing import Any, Final

from .report_groups import NONE

HOUR: Final = 3600  # seconds
DAY: Final = 24 * HOUR
NO_TOPIC: Final = "(no topic)"


def joined(pages: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Merges the pages of several gateways. Each row gets its latest date. The observation begins
    with that of the gateway that began last."""
    rows: dict[tuple[str, str], float] = {}
    since = 0.0
    for page in pages:
        since = max(since, page["since"])
        for topic, principal, seconds in page["rows"]:
            key = topic, principal
            rows[key] = max(seconds, rows.get(key, 0.0))
    found = sorted(((*key, seconds) for key, seconds in rows.items()), key=lambda one: -one[2])
    last = max((row[2] for row in found), default=None)
    return {"since": since, "last_old": last, "rows": [list(row) for row in found]}


def lines(page: dict[str, Any], now: float) -> list[tuple[str, ...]]:
    """Rows of a table: topic, principal, the last time of an old version, and how long ago that
    was."""
    return [
        (topic or NO_TOPIC, principal or NONE, _when(seconds), _ago(now - seconds))
        for topic, principal, seconds in page["rows"]
    ]


def conclusion(page: dict[str, Any], now: float) -> str:
    """The conclusion, in one sentence."""
    since, last = page["since"], page["last_old"]
    if last is None or last < since:
        begun = f"{_when(since)}, when the gateway began to look"
        return f"No old version was seen since {begun}: {_ago(now - since)}."
    return f"No old version was seen since {_when(last)}: {_ago(now - last)}."


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _ago(seconds: float) -> str:
    return f"{seconds / DAY:.1f} days" if seconds >= DAY else f"{seconds / HOUR:.1f} hours"
