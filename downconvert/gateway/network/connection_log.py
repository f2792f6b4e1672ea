"""Logs how each client's connection ended, or why it was refused.

Lines at WARNING are limited. If a broker fails, or a client keeps connecting, further lines are
only counted. Times in seconds of the event loop's clock."""

import logging
from typing import Any, Final

from downconvert.access.identity import in_line
from downconvert.gateway.audit import Audit, trace_id
from downconvert.gateway.figures import End
from downconvert.serving.line_budget import LineBudget
from records.logged import log_of

from .connection import Connection
from .handshake import Handshake

LOG: Final = log_of(__name__)
WARNED: Final = (End.CLUSTER, End.TIMEOUT, End.LOGIN, End.LIMIT, End.DEFECT)
UNKNOWN: Final = "unknown software"


def log_end(
    lines: LineBudget, connection: Connection, reason: End, text: str, seconds: float, now: float
) -> None:
    """Logs the end of a connection: its client, why it ended, its duration and its requests."""
    if reason not in WARNED and not LOG.isEnabledFor(logging.INFO):
        return
    session, identity = connection.session, connection.session.identity
    fields = {
        "client": session.address,
        **_traced(connection),
        "principal": identity.principal,
        "claimed": identity.claimed,
        "client_id": session.client_id,
        "software": session.software,
        "reason": str(reason),
        "requests": connection.requests,
        "seconds": round(seconds, 3),
    }
    message = "client %s: %s [%s after %d requests in %.1f s, client id %r, %s%s, connection %s]"
    principal = in_line(identity.principal, identity.claimed)
    trace = trace_id(identity.connection)
    who = session.client_id, session.software or UNKNOWN, principal, trace
    values = (session.address, text, reason, connection.requests, seconds, *who)
    extra = {"fields": fields}
    if reason in (End.LOGIN, End.LIMIT):
        session.shared.audit.refused(fields, text)
    if reason in WARNED:
        lines.write(LOG, now, logging.WARNING, str(reason), message, *values, extra=extra)
    else:
        LOG.info(message, *values, extra=extra)


def log_refusal(
    lines: LineBudget, audit: Audit, address: str, why: str, reason: End, now: float
) -> None:
    """Logs a connection that is refused at once. At INFO if the client has only gone."""
    fields = {"client": address, "reason": str(reason)}
    message = "client %s is refused: %s [%s]"
    if reason is End.REFUSED:
        audit.refused(fields, why)
    if reason is End.CLIENT:
        LOG.info(message, address, why, reason, extra={"fields": fields})
    else:
        lines.write(
            *(LOG, now, logging.WARNING, "refused", message, address, why, reason),
            extra={"fields": fields},
        )


def log_handshake(
    lines: LineBudget, address: str, text: str, reason: End, handshake: Handshake, now: float
) -> None:
    """Logs a failed TLS handshake. At INFO if the client has only gone."""
    trace = trace_id(handshake.connection)
    fields: dict[str, Any] = {"client": address, "connection": trace}
    fields |= {"reason": str(reason), "server_name": handshake.name}
    message = "client %s: its TLS handshake has failed: %s [%s, connection %s]"
    extra = {"fields": fields}
    if reason is End.CLIENT:
        LOG.info(message, address, text, reason, trace, extra=extra)
    else:
        values = address, text, reason, trace
        lines.write(LOG, now, logging.WARNING, str(reason), message, *values, extra=extra)


def log_defect(lines: LineBudget, connection: Connection, now: float) -> None:
    """Logs the unexpected exception that is being handled."""
    message = "client %s: a defect of the gateway [connection %s]"
    trace, address = _traced(connection), connection.session.address
    extra = {"fields": {"client": address, **trace}}
    values = address, trace["connection"]
    lines.write(
        *(LOG, now, logging.ERROR, "a defect", message, *values), exc_info=True, extra=extra
    )


def _traced(connection: Connection) -> dict[str, Any]:
    """The ids of a connection and of its request under way, if any."""
    ids: dict[str, Any] = {"connection": trace_id(connection.session.identity.connection)}
    if connection.is_busy:
        ids["number"] = connection.requests + 1
    return ids
