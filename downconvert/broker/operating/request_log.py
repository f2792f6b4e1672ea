"""Log lines about clients: one for each connection's end, and for each refusal.

Lines at WARNING are limited per second. Beyond the limit they are only counted. A line's `fields`
have its content for JSON. At DEBUG, each request has a line with its client and its work. Repeated
refusals of a client have lines only at DEBUG.

Not here: the destination of the lines (the command)."""

import logging
from typing import Any, Final

from downconvert.access.identity import in_line, principal_of
from downconvert.broker.endings import End
from downconvert.broker.exchange import Client, Exchange
from downconvert.protocol.errors import ErrorCode, name_of
from downconvert.serving.line_budget import LineBudget
from records.logged import log_of

from .metrics import stats_of

LOG: Final = log_of(__name__)
WARNED: Final = (End.LOGIN, End.RESPONSE, End.DEFECT)
SHOWN_MAX: Final = 128  # characters of text that a client sends about itself
REFUSALS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
    ErrorCode.POLICY_VIOLATION,
}


def log_end(
    lines: LineBudget, client: Client, end: End, why: str, seconds: float, now: float
) -> None:
    """A connection has ended. `now` in seconds, by the clock of `lines`."""
    fields = _fields_of(client) | {
        "reason": end.value,
        "requests": client.requests,
        "seconds": round(seconds, 3),
    }
    message = "client %s: %s [%s after %d requests in %.1f s, client id %r, %s%s]"
    principal = in_line(fields["user"] or "", client.claimed)
    who = fields["client_id"], fields["software"] or "unknown software", principal
    values = (client.address, why, end.value, client.requests, seconds, *who)
    extra = {"fields": fields}
    if end in WARNED:
        lines.write(LOG, now, logging.WARNING, end.value, message, *values, extra=extra)
    else:
        LOG.info(message, *values, extra=extra)


def log_response(exchange: Exchange, now: float) -> None:
    """A request has been answered, or will not be. `now` in seconds, by the clock of its
    arrival."""
    client, api = exchange.client, exchange.request.name
    refused = {code for code in exchange.errors if code in REFUSALS} - client.logged_refusals.get(
        api, set()
    )
    if refused:
        client.logged_refusals.setdefault(api, set()).update(refused)
    elif not LOG.isEnabledFor(logging.DEBUG):
        return
    errors = {name_of(code): count for code, count in exchange.errors.items()}
    fields = _fields_of(client) | {
        "api": api,
        "version": exchange.request.version,
        "seconds": round(now - exchange.received, 6),
        "errors": errors,
        "records_converted": _converted(exchange),
    }
    LOG.log(
        logging.INFO if refused else logging.DEBUG,
        "client %s: %s v%d %s [%.1f ms, client id %r%s]",
        client.address,
        api,
        exchange.request.version,
        f"is refused: {', '.join(map(name_of, sorted(refused)))}" if refused else "is answered",
        1000 * fields["seconds"],
        fields["client_id"],
        _said(errors, fields["records_converted"]),
        extra={"fields": fields},
    )


def _said(errors: dict[str, int], converted: int) -> str:
    parts = [f"{name} {count} times" for name, count in errors.items()]
    parts += [f"{converted} records converted"] if converted else []
    return "".join(f", {part}" for part in parts)


def _converted(exchange: Exchange) -> int:
    return sum(
        stats.records_converted for _, send in exchange.converted for stats in stats_of(send)
    )


def _fields_of(client: Client) -> dict[str, Any]:
    software = f"{client.software_name} {client.software_version}".strip()
    return {
        "client": client.address,
        "client_id": client.client_id[:SHOWN_MAX],
        "software": software[:SHOWN_MAX],
        "user": principal_of(client.principal, client.certificate, client.rule) or None,
        "claimed": client.claimed,
    }
