"""Identities: each server has its own ids of topics, members, producers and sessions.

A token stands for both of them. Requests are made with tokens, and rendered for each server;
answers are compared with tokens in place of ids."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from downconvert.protocol.schemas import Message

KAFKA, OURS = 0, 1
SIDES: Final = (KAFKA, OURS)
UNHEARD: Final = re.compile(r"-[0-9a-f]{8}-[0-9a-f-]{27}$")  # how a member's id ends
# The fields that hold each kind.
KINDS: Final = {
    "topic_id": "topic",
    "member_id": "member",
    "leader": "member",
    "producer_id": "producer",
    "v3_and_below_producer_id": "producer",
    "producer_id_filters": "producer",
    "session_id": "session",
}


@dataclass(frozen=True, slots=True)
class Token:
    """One thing that both servers know."""

    kind: str
    number: int

    def __repr__(self) -> str:
        return f"<{self.kind} {self.number}>"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A value that is made for each server: `make` gets what tells its ids."""

    said: str
    make: Callable[[Callable[[Any], Any]], Any]

    def __repr__(self) -> str:
        return self.said


class Identities:
    """The name of a token on each server."""

    def __init__(self, prefix: str) -> None:
        """prefix: of the names that the operations use."""
        self.prefix = prefix
        self._values: dict[Token, tuple[Any, Any]] = {}
        self._tokens: tuple[dict[tuple[str, Any], Token], ...] = ({}, {})

    def learn(self, kind: str, kafkas: Any, ours: Any) -> Token:
        """The token of what the servers call so. A new one, unless both know it as the same."""
        found = [self._tokens[side].get((kind, value)) for side, value in enumerate((kafkas, ours))]
        first = found[KAFKA]
        if first is not None and first == found[OURS]:
            return first
        token = Token(kind, len(self._values))
        self._values[token] = kafkas, ours
        for side, value in enumerate((kafkas, ours)):
            self._tokens[side][kind, value] = token
        return token

    def render(self, value: Any, side: int) -> Any:
        """A request's body, or a part of it, for one server."""
        match value:
            case Token():
                return self._values[value][side]
            case Rendered():
                return value.make(lambda one: self.render(one, side))
            case Message():
                fields = {name: self.render(one, side) for name, one in vars(value).items()}
                return Message(**fields)
            case list():
                return [self.render(one, side) for one in value]
            case _:
                return value

    def token(self, field: str, value: Any, side: int) -> Any:
        """The token of a value that a server answered; the value itself, where none is known."""
        kind = KINDS.get(field)
        if kind is None:
            return value
        if kind == "member" and UNHEARD.search(str(value)):  # unless it has joined
            return self._tokens[side].get((kind, value), "a member that waits")
        return self._tokens[side].get((kind, value), value)

    def all(self, kind: str) -> Iterable[Token]:
        return (token for token in self._values if token.kind == kind)
