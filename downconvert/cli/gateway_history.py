"""`--history FILE`: keeps the times when old versions were last seen across restarts of a gateway.

Not here: noting old versions (gateway/session/last_old.py), the report (report_topics.py)."""

import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from downconvert.gateway.clusters import CLUSTERS, ONLY
from downconvert.gateway.session.last_old import LastOld, Row
from records.logged import log_of
from records.paths import whole_file

from .failure import CommandError

LOG: Final = log_of("downconvert.gateway")
STORE_SECONDS: Final = 60.0


class History:
    """The dates in the file and of this run, by cluster. `path` None: nothing is stored.
    CommandError: the file cannot be used."""

    def __init__(self, path: Path | None, clusters: Iterable[str] = (ONLY,)) -> None:
        self._path = path
        self._has_failed = False
        now = time.time()
        self._clusters = {name: _Seen(now) for name in clusters}
        if path is not None and path.exists():
            try:
                page = json.loads(path.read_text(encoding="utf-8"))
                for name, counts in pages_of(page).items():
                    self._clusters.setdefault(name, _Seen(now)).add(counts)
            except (ValueError, KeyError, TypeError, AttributeError):
                text = f"{path}: no history of a gateway; remove it, or name another"
                raise CommandError(text) from None
        if path is not None and not os.access(path.absolute().parent, os.W_OK):
            raise CommandError(f"--history {path}: no file can be written in {path.parent}")

    def page(self, rows: Mapping[str, Iterable[Row]]) -> dict[str, Any]:
        """The history for programs. `rows`: what the running gateway has seen."""
        for name, seen in rows.items():
            self._clusters[name].last.join(seen)
        pages = {name: one.page() for name, one in self._clusters.items()}
        return pages[ONLY] if pages.keys() == {ONLY} else {CLUSTERS: pages}

    def store(self, rows: Mapping[str, Iterable[Row]]) -> None:
        """Writes the file atomically. A failure is logged, and the next call tries again."""
        page = self.page(rows)
        if self._path is None:
            return
        try:
            with whole_file(self._path) as file:
                file.write(json.dumps(page).encode())
                file.flush()
                os.fsync(file.fileno())  # or a power failure could leave an empty file
        except OSError as error:
            if not self._has_failed:
                LOG.warning("%s: the history cannot be written: %s", self._path, error)
            self._has_failed = True
        else:
            self._has_failed = False


class _Seen:
    """When old versions were last seen in one cluster. `since`: the beginning of the
    observation."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.last = LastOld()

    def add(self, page: Mapping[str, Any]) -> None:
        """Adds the dates in a file."""
        self.since = min(self.since, float(page["since"]))
        self.last.join((str(a), str(b), float(c)) for a, b, c in page["rows"])

    def page(self) -> dict[str, Any]:
        return {"since": self.since, "rows": sorted(self.last.rows())}


def pages_of(page: Mapping[str, Any]) -> dict[str, Any]:
    """The pages of a file or of a response of `/history`, by the clusters' names."""
    return dict(page[CLUSTERS]) if CLUSTERS in page else {ONLY: page}
