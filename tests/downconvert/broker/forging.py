"""Requests of every API and version that are served, whose texts hold a line break and the codes of
a terminal: in all of their texts at once, and in each text alone."""

from collections.abc import Iterator
from typing import Any, Final

from downconvert.broker.handlers.apis import APIS
from downconvert.protocol.schemas import Field, Message, schema

from .asking import frame

FORGED: Final = "FORGED"
EVIL: Final = f"t\n2026-01-01 00:00:00,000 {FORGED}\x1b[31m {FORGED}\x9b1m\r{FORGED}"
PLAUSIBLE: Final = "t"


def forging_requests() -> Iterator[tuple[str, bytes]]:
    """The name of each, and its frame."""
    for api, served in APIS.items():
        fields = schema(f"{api.name}Request").fields
        for version in served.versions:
            body = _message(fields, version, EVIL, None)
            yield f"{api.name} v{version}", frame(api, version, body, EVIL)
        version = served.versions.stop - 1
        for name in _texts(fields, version):
            body = _message(fields, version, EVIL, name)
            yield f"{name} of {api.name} v{version}", frame(api, version, body)
    yield "an API that is not known", _unknown(EVIL)


def forging_logins() -> Iterator[tuple[int, str, bytes]]:
    """The version of a handshake, its mechanism, and a token."""
    for version in (0, 1):
        yield version, EVIL, b""
        yield version, "PLAIN", f"\0{EVIL}\0{EVIL}".encode()
        yield version, "PLAIN", f"{EVIL}\0ann\0secret".encode()
        yield version, "SCRAM-SHA-256", f"n,,n={EVIL},r=abc".encode()
        yield version, "PLAIN", EVIL.encode()


def _unknown(client_id: str) -> bytes:
    data = client_id.encode()
    return (30_000).to_bytes(2) + bytes(2) + bytes(4) + len(data).to_bytes(2) + data


def _texts(fields: tuple[Field, ...], version: int, path: str = "") -> Iterator[str]:
    for field in fields:
        if version in field.versions:
            if field.type == "string":
                yield f"{path}{field.name}"
            yield from _texts(field.fields, version, f"{path}{field.name}.")


def _message(
    fields: tuple[Field, ...], version: int, text: str, only: str | None, path: str = ""
) -> Message:
    values = {}
    for field in fields:
        if version not in field.versions:
            continue
        name = f"{path}{field.name}"
        value: Any
        if field.type == "struct":
            value = _message(field.fields, version, text, only, f"{name}.")
        elif field.type == "string":
            value = text if only in (None, name) else PLAUSIBLE
        elif field.type in ("bytes", "records"):
            value = text.encode() if only is None else b""
        elif field.type == "uuid":
            value = bytes(16)
        else:
            value = _number(field)
        values[field.name] = [value] if field.is_array else value
    return Message(**values)


def _number(field: Field) -> Any:
    if field.type == "bool":
        return False
    if field.type == "float64":
        return 0.0
    if field.name in ("session_timeout_ms", "rebalance_timeout_ms"):
        return 10_000
    return -1 if field.name in ("replica_id", "generation_id", "acks") else 0
