"""What a broker lets its clients do: who they are, and which requests are offered to them.

Not here: logging in (handlers/sasl.py), which parts of a request may be done (permissions.py)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from downconvert.broker.wire.schemas import ApiKey

from .identity import Identified, Identities
from .names import NEWEST, READING, RULES
from .permissions import CHANGING, WRITING
from .rights import Access
from .settings import TOP, access_of, check_known, identities_of, load

EVERYTHING: Final = Access()
Offered = Mapping[ApiKey, range]


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Of one broker; without anything said, everybody may do everything.

    access: the rights of clients that no rule says anything else of. Its networks are for all."""

    access: Access = EVERYTHING
    identities: Identities[None] = field(default_factory=Identities)

    @classmethod
    def load(cls, path: Path) -> "Guard":
        """From a file of settings. ConfigError; OSError: it cannot be read."""
        settings = load(path)
        check_known("a setting", settings, TOP)
        access = access_of(settings, EVERYTHING)
        return cls(access=access, identities=identities_of(settings, access, lambda _: None))

    def find(
        self,
        address: str,
        user: str | None = None,
        certificate: str | None = None,
        groups: Iterable[str] = (),
    ) -> Access | None:
        """The rights of a client that has shown this of itself; None: it has none."""
        default = Identified(name="", access=self.access, credentials=None)
        found = self.identities.find(default, address, user, certificate, groups)
        return None if found is None else found.access


def is_limited(access: Access) -> bool:
    """Whether there is anything that a client may not do."""
    return access.has_lists or access.is_read_only


@lru_cache(maxsize=1024)
def newest_offered(access: Access, api: ApiKey, newest: int) -> int:
    """The newest version of an API that a client of these rights may ask; below 0: none. Where
    there are lists, versions whose requests do not say by name what they are about are not
    offered."""
    if access.is_read_only and api not in READING | WRITING | CHANGING.keys():
        return -1
    if not access.has_lists and api not in WRITING:
        return newest
    return min(newest, NEWEST.get(api, newest)) if api in RULES else -1


def offered(access: Access, versions: Offered) -> Offered:
    """What of a broker's versions is offered to a client of these rights."""
    if not is_limited(access):
        return versions
    found = {
        api: range(served.start, newest_offered(access, api, served.stop - 1) + 1)
        for api, served in versions.items()
    }
    return {api: served for api, served in found.items() if served}
