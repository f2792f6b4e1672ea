"""The audit: logins, refusals, denials and changes, with the client of each.

Its lines go to a logger of their own. All changes are written. Lines about refusals and denials are
limited, because any client can cause them and could fill the disk.

Not here: the file (cli/logs.py), the names of resources (access/audited.py)."""

import logging
from collections.abc import Callable, Mapping
from os import getpid
from typing import Any, Final

from downconvert.access import audited
from downconvert.access.audited import CHANGES, DENIED, Outcome
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.line_budget import LineBudget
from records.logged import log_of

AUDIT: Final = log_of("downconvert.audit")
KIND: Final = "audit"  # the kind of the limited lines


class Audit:
    """The audit of one gateway. `clock`: the clock of `lines`."""

    def __init__(self, lines: LineBudget, clock: Callable[[], float]) -> None:
        self._lines = lines
        self._clock = clock

    @property
    def is_on(self) -> bool:
        """Whether the audit is written."""
        return AUDIT.isEnabledFor(logging.INFO)

    def logged_in(self, who: Mapping[str, Any]) -> None:
        """A client has proved its identity. `who`: the client's fields, here and below."""
        text = "client %s: has logged in as %r"
        fields = {"event": "logged_in", **who}
        AUDIT.info(text, who["client"], who["principal"], extra={"fields": fields})

    def refused(self, who: Mapping[str, Any], why: str) -> None:
        """The connection of a client is refused."""
        self._limited("refused", who, "client %s: %s", who["client"], why)

    def answered(
        self,
        who: Mapping[str, Any],
        api: ApiKey,
        body: Message | None,
        response: Message,
        errors: Mapping[int, int],
    ) -> None:
        """A request has been answered, with these error codes. `body`: the request, if it was
        read."""
        if not DENIED.isdisjoint(errors):
            named = audited.denied(api, body, response)
            fields = {**who, "api": api.name, "resources": named}
            text = "client %s: %s is denied: %s"
            self._limited("denied", fields, text, who["client"], api.name, _shown(named))
        if api in CHANGES and body is not None:
            self._changed(who, api.name, body, audited.changed(api, body, response))

    def passed_on(self, who: Mapping[str, Any], api: str, named: list[Outcome]) -> None:
        """A request for these resources goes to the cluster. The cluster may refuse it, but the
        gateway does not read the response."""
        self._changed(who, api, None, named)

    def _changed(
        self, who: Mapping[str, Any], api: str, body: Message | None, named: list[Outcome]
    ) -> None:
        fields = {"event": "changed", **who, "api": api, "resources": named}
        if getattr(body, "validate_only", False):
            fields["validate_only"] = True
        text = "client %s: %s: %s"
        shown = _shown(named) or "passed on"
        AUDIT.info(text, who["client"], api, shown, extra={"fields": fields})

    def _limited(self, event: str, fields: Mapping[str, Any], text: str, *words: object) -> None:
        extra = {"fields": {"event": event, **fields}}
        now = self._clock()
        self._lines.write(AUDIT, now, logging.INFO, KIND, text, *words, extra=extra)


def trace_id(connection: int) -> str:
    """The id of a connection in logs: the process, and a number that grows."""
    return f"{getpid()}-{connection}"


def _shown(named: list[Outcome]) -> str:
    return ", ".join(
        " ".join(str(one[part]) for part in ("kind", "name", "error") if part in one)
        for one in named
    )
