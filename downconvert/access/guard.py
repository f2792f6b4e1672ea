"""The rights of a broker's clients: their identities, and the requests that are offered to them.

Not here: authentication (handlers/sasl.py), which parts of a request are allowed
(permissions.py)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from downconvert.protocol.schemas import ApiKey

from . import operations
from .identity import Identified, Identities
from .names import NEWEST, READING, RULES, SHOWING_RIGHTS, Rule
from .operations import Kind
from .rights import Access
from .settings import FOLLOWERS, TOP, access_of, check_known, identities_of, load

EVERYTHING: Final = Access()
Offered = Mapping[ApiKey, range]


def _is_given(rule: Rule, given: Mapping[Kind, int]) -> bool:
    return all(operation & ~given[kind] == 0 for kind, operation in rule.needs)


# The rights of a read-only client without lists, and the APIs that need no more rights.
READS_ALL: Final = {kind: Access(is_read_only=True).operations(kind, "") for kind in Kind}
OPEN_TO_READERS: Final = frozenset(
    api for api, rule in RULES.items() if api not in SHOWING_RIGHTS and _is_given(rule, READS_ALL)
)


@dataclass(frozen=True, kw_only=True)
class Guard:
    """The rights of one broker's clients. By default, every client may do everything.

    access: the rights of clients that match no rule. Its networks apply to all clients."""

    access: Access = EVERYTHING
    identities: Identities[None] = field(default_factory=Identities)

    @classmethod
    def load(cls, path: Path) -> "Guard":
        """Reads a file of settings. ConfigError; OSError: it cannot be read."""
        return cls.of(load(path))

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Guard":
        """Reads settings. ConfigError."""
        check_known("a setting", settings, TOP)
        access = access_of(settings, EVERYTHING)
        more = frozenset({FOLLOWERS})
        return cls(access=access, identities=identities_of(settings, access, lambda _: None, more))

    def find(
        self,
        address: str,
        user: str | None = None,
        certificate: str | None = None,
        groups: Iterable[str] = (),
    ) -> Access | None:
        """The rights of a client with these proofs of identity. None: it may not connect."""
        found = self.identify(address, user, certificate, groups)
        return None if found is None else found.access

    def identify(
        self,
        address: str,
        user: str | None = None,
        certificate: str | None = None,
        groups: Iterable[str] = (),
    ) -> Identified[None] | None:
        """As `find`, with the number of the matching rule."""
        default = Identified(name="", access=self.access, credentials=None)
        return self.identities.find(default, address, user, certificate, groups)


def is_limited(access: Access) -> bool:
    """Whether any right of the client is limited, besides fetching as a follower."""
    return access.is_closed or access.is_read_only


def is_checked(access: Access, api: int) -> bool:
    """Whether an API's requests or responses may have parts that must be hidden from a client."""
    if access.is_closed:
        return True
    return access.is_read_only and api in RULES and api not in OPEN_TO_READERS


def is_for_readers(api: int) -> bool:
    """Whether a read-only client may use an API."""
    rule = RULES.get(api)
    return api in READING if rule is None else _is_given(rule, operations.OF_READERS)


def newest_offered(access: Access, api: int, newest: int) -> int:
    """The newest version of an API that a client with these rights may use; below 0: none. Later
    versions are not offered if their requests must be checked but do not name their resources."""
    if api not in RULES and (access.is_closed or (access.is_read_only and api not in READING)):
        return -1
    return min(newest, NEWEST.get(api, newest)) if is_checked(access, api) else newest


def offered(access: Access, versions: Offered) -> Offered:
    """The versions of a broker that are offered to a client with these rights."""
    if not is_limited(access):
        return versions
    found = {
        api: range(served.start, newest_offered(access, api, served.stop - 1) + 1)
        for api, served in versions.items()
    }
    return {api: served for api, served in found.items() if served}
