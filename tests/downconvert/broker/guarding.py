"""Guards of brokers, for tests."""

from collections.abc import Mapping

from downconvert.access.guard import EVERYTHING, Guard
from downconvert.access.identity import ClientRule, Identities, Users
from downconvert.access.rights import Access


def guard_of(
    passwords: Mapping[str, str] | None,
    access: Access = EVERYTHING,
    **rules: Access,
) -> Guard:
    """These users, or none; the rights of all, and of each user that is named."""
    made = tuple(
        ClientRule(access=of_user, credentials=None, user=user) for user, of_user in rules.items()
    )
    users = None if passwords is None else Users(passwords)
    return Guard(access=access, identities=Identities(users=users, rules=made))
