"""What a broker lets its clients do: who they are, and which requests are offered to them.

Not here: logging in (handlers/sasl.py), which parts of a request may be done (permissions.py)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from downconvert.protocol.schemas import ApiKey

from . import operations
from .identity import Identified, Identities
from .names import NEWEST, READING, RULES, TELLING_RIGHTS, Rule
from .operations import Kind
from .rights import Access
from .settings import FOLLOWERS, TOP, access_of, check_known, identities_of, load

EVERYTHING: Final = Access()
Offered = Mapping[ApiKey, range]


def _is_given(rule: Rule, given: Mapping[Kind, int]) -> bool:
    return all(operation & ~given[kind] == 0 for kind, operation in rule.needs)


# What a client may do that may only read, and has no list; the APIs that take no more than that.
READS_ALL: Final = {kind: Access(is_read_only=True).operations(kind, "") for kind in Kind}
OPEN_TO_READERS: Final = frozenset(
    api for api, rule in RULES.items() if api not in TELLING_RIGHTS and _is_given(rule, READS_ALL)
)


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Of one broker; without anything said, everybody may do everything.

    access: the rights of clients that no rule says anything else of. Its networks are for all."""

    access: Access = EVERYTHING
    identities: Identities[None] = field(default_factory=Identities)

    @classmethod
    def load(cls, path: Path) -> "Guard":
        """From a file of settings. ConfigError; OSError: it cannot be read."""
        return cls.of(load(path))

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Guard":
        """From settings. ConfigError."""
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
        """The rights of a client that has shown this of itself; None: it has none."""
        found = self.identify(address, user, certificate, groups)
        return None if found is None else found.access

    def identify(
        self,
        address: str,
        user: str | None = None,
        certificate: str | None = None,
        groups: Iterable[str] = (),
    ) -> Identified[None] | None:
        """As `find`, and which rule has matched."""
        default = Identified(name="", access=self.access, credentials=None)
        return self.identities.find(default, address, user, certificate, groups)


def is_limited(access: Access) -> bool:
    """Whether there is anything that a client may not do, beside following."""
    return access.is_closed or access.is_read_only


def is_checked(access: Access, api: int) -> bool:
    """Whether requests of an API, or their answers, may have parts that are not for a client."""
    if access.is_closed:
        return True
    return access.is_read_only and api in RULES and api not in OPEN_TO_READERS


def is_for_readers(api: int) -> bool:
    """Whether a client may have a use for an API that may only read."""
    rule = RULES.get(api)
    return api in READING if rule is None else _is_given(rule, operations.OF_READERS)


def newest_offered(access: Access, api: int, newest: int) -> int:
    """The newest version of an API that a client of these rights may ask; below 0: none. Versions
    are not offered whose requests have to be looked into and do not say by name what they are
    about."""
    if api not in RULES and (access.is_closed or (access.is_read_only and api not in READING)):
        return -1
    return min(newest, NEWEST.get(api, newest)) if is_checked(access, api) else newest


def offered(access: Access, versions: Offered) -> Offered:
    """What of a broker's versions is offered to a client of these rights."""
    if not is_limited(access):
        return versions
    found = {
        api: range(served.start, newest_offered(access, api, served.stop - 1) + 1)
        for api, served in versions.items()
    }
    return {api: served for api, served in found.items() if served}
