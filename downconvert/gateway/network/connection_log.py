"""Logs clients' connections: how each of them ended, or why it was refused.

Lines at WARNING are limited. If a broker fails, or a client connects again and again, further
lines are only counted. Times in seconds of the event loop's clock."""

import logging
from collections.abc import Mapping
from typing import Final

from downconvert.access.identity import in_line
from downconvert.gateway.figures import End
from downconvert.serving.line_budget import LineBudget
from records.logged import log_of

from .connection import Connection

LOG: Final = log_of(__name__)
WARNED: Final = (End.CLUSTER, End.TIMEOUT, End.LOGIN, End.LIMIT, End.DEFECT)
AUDIT: Final = log_of("downconvert.audit")
UNKNOWN: Final = "unknown software"


def log_end(
    lines: LineBudget, connection: Connection, reason: End, text: str, seconds: float, now: float
) -> None:
    """Logs the end of a connection: its client, why it ended, its duration and its requests."""
    session, identity = connection.session, connection.session.identity
    fields = {
        "client": session.address,
        "principal": identity.principal,
        "claimed": identity.claimed,
        "client_id": session.client_id,
        "software": session.software,
        "reason": str(reason),
        "requests": connection.requests,
        "seconds": round(seconds, 3),
    }
    message = "client %s: %s [%s after %d requests in %.1f s, client id %r, %s%s]"
    principal = in_line(identity.principal, identity.claimed)
    who = session.client_id, session.software or UNKNOWN, principal
    said = (session.address, text, reason, connection.requests, seconds, *who)
    extra = {"fields": fields}
    if reason in (End.LOGIN, End.LIMIT):
        _audit(lines, session.address, text, fields, now)
    if reason in WARNED:
        lines.write(LOG, now, logging.WARNING, str(reason), message, *said, extra=extra)
    else:
        LOG.info(message, *said, extra=extra)


def log_refusal(lines: LineBudget, address: str, why: str, reason: End, now: float) -> None:
    """Logs a connection that is refused at once. INFO: the client has only gone."""
    fields = {"client": address, "reason": str(reason)}
    message = "client %s is refused: %s [%s]"
    if reason is End.REFUSED:
        _audit(lines, address, why, fields, now)
    if reason is End.CLIENT:
        LOG.info(message, address, why, reason, extra={"fields": fields})
    else:
        lines.write(
            *(LOG, now, logging.WARNING, "refused", message, address, why, reason),
            extra={"fields": fields},
        )


def _audit(
    lines: LineBudget, address: str, why: str, fields: Mapping[str, object], now: float
) -> None:
    """Logs a refused client for the audit. Lines are limited: anybody can cause refusals, and must
    not be able to fill the disk."""
    extra = {"fields": {"event": "refused", **fields}}
    lines.write(AUDIT, now, logging.INFO, "audit", "client %s: %s", address, why, extra=extra)


def log_handshake(
    lines: LineBudget, address: str, text: str, reason: End, server_name: str | None, now: float
) -> None:
    """Logs a failed TLS handshake. INFO: the client has only gone."""
    fields = {"client": address, "reason": str(reason), "server_name": server_name}
    message = "client %s: its TLS handshake has failed: %s [%s]"
    extra = {"fields": fields}
    if reason is End.CLIENT:
        LOG.info(message, address, text, reason, extra=extra)
    else:
        lines.write(
            LOG, now, logging.WARNING, str(reason), message, address, text, reason, extra=extra
        )


def log_defect(lines: LineBudget, address: str, now: float) -> None:
    """Logs the unexpected exception that is being handled."""
    message = "client %s: a defect of the gateway"
    lines.write(LOG, now, logging.ERROR, "a defect", message, address, exc_info=True)
