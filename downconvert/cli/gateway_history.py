"""`--history FILE`: keeps the times when old versions were last seen across restarts of a gateway.

Not here: noting old versions (gateway/session/last_old.py), the report (report_topics.py)."""

import json
import time
from pathlib import Path
from typing import Any, Final

from downconvert.gateway.session.last_old import LastOld, Row
from records.logged import log_of
from records.paths import whole_file

from .failure import CommandError

LOG: Final = log_of("downconvert.gateway")
STORE_SECONDS: Final = 60.0


class History:
    """The content of the file, and the versions seen since. If `path` is None, nothing is kept.
    CommandError: the file is unusable."""

    def __init__(self, path: Path | None) -> None:
        self.since = time.time()
        self._path = path
        self._seen = LastOld()
        self._has_failed = False
        if path is not None and path.exists():
            try:
                said = json.loads(path.read_text(encoding="utf-8"))
                self.since = min(self.since, float(said["since"]))
                self._seen.join((str(a), str(b), float(c)) for a, b, c in said["rows"])
            except (ValueError, KeyError, TypeError):
                text = f"{path}: no history of a gateway; remove it, or name another"
                raise CommandError(text) from None

    def page(self, rows: list[Row]) -> dict[str, Any]:
        """The history with the rows of the running gateway, for programs."""
        self._seen.join(rows)
        return {"since": self.since, "rows": sorted(self._seen.rows())}

    def store(self, rows: list[Row]) -> None:
        """Writes the file, all of it or nothing. A failure is logged, and the next call tries
        again."""
        page = self.page(rows)
        if self._path is None:
            return
        try:
            with whole_file(self._path) as file:
                file.write(json.dumps(page).encode())
        except OSError as error:
            if not self._has_failed:
                LOG.warning("%s: the history cannot be written: %s", self._path, error)
            self._has_failed = True
        else:
            self._has_failed = False
