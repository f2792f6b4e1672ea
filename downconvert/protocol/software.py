"""The software names of clients in ApiVersions, from version 3 on [KIP-511]."""

import re
from typing import Final

from .schemas import Message

SAID_SINCE: Final = 3  # versions of ApiVersions in which clients name their software
KEPT_MAX: Final = 128  # characters of each name that a connection keeps
VALID: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")  # Kafka's own


def is_valid(body: Message, version: int) -> bool:
    """Whether Kafka accepts the software name in an ApiVersions request."""
    if version < SAID_SINCE:
        return True
    names = (body.client_software_name, body.client_software_version)
    return all(VALID.fullmatch(name) is not None for name in names)


def names_in(body: Message) -> tuple[str, str]:
    """The software and its version, each cut to KEPT_MAX characters."""
    return body.client_software_name[:KEPT_MAX], body.client_software_version[:KEPT_MAX]


def software_of(body: Message) -> str:
    """The software and its version, as one name."""
    return " ".join(names_in(body)).strip()
