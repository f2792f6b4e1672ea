"""A gateway's counts (`downconvert gateway --report HOST:PORT --json`): rows as JSON.

Not here: the counting (gateway/session/census.py)."""

import json
from collections.abc import Iterator
from typing import Any, Final

from records.units import MiB

from .evidence import Problems, Seen, seen
from .releases import key_of

SIZE_MAX: Final = 64 * MiB  # bytes; a census has 10,000 rows of at most 1 KB
_FIELDS: Final = ("requests", "version")


class GatewayRows:
    """A Reader of the rows. It yields everything at the end."""

    def __init__(self) -> None:
        self.problems = Problems()
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Seen]:
        self._data += data[: SIZE_MAX + 1 - len(self._data)]
        yield from ()

    def end(self) -> Iterator[Seen]:
        try:
            if len(self._data) > SIZE_MAX:
                raise ValueError
            rows: Any = json.loads(self._data)
        except (ValueError, RecursionError):
            rows = None
        if not isinstance(rows, list):
            self.problems.add("it is no JSON of a gateway's report")
            return
        for row in rows:
            one = _row(row)
            if one is None:
                self.problems.add("rows that no gateway --report --json has written")
            else:
                yield one


def _row(row: Any) -> Seen | None:
    if not isinstance(row, dict) or any(type(row.get(name)) is not int for name in _FIELDS):
        return None
    when = row.get("last_seen")
    return seen(
        client_id=row.get("client_id"),
        software=(row.get("software"), ""),
        address=row.get("address"),
        api=key_of(str(row.get("api"))),
        version=row["version"],
        requests=max(0, row["requests"]),
        when=when if type(when) in (int, float) else None,
    )
