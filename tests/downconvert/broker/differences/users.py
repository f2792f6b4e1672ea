"""Users with different rights, said twice: as ACLs for Kafka, and as rules for `serve`.

A rule has shell patterns, and an ACL has a name, a prefix or `*`. So both mean the same for the
names that the operations use, and only for these.

Not here: what may differ between ACLs and rules (users_may_differ.py)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.talking import Talk

PASSWORD: Final = "secret"
ADMINISTRATOR: Final = "root"  # who may do everything
READER: Final = "reader"  # who may change no topic
MECHANISM: Final = "PLAIN"
# Kafka's numbers.
TOPIC, GROUP, TRANSACTIONAL_ID = 2, 3, 5
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL, READ, WRITE, CREATE, DELETE, ALTER = range(2, 8)
DESCRIBE_CONFIGS, ALTER_CONFIGS = 10, 11
CHANGING: Final = (WRITE, CREATE, DELETE, ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS)
READING: Final = (READ, DESCRIBE_CONFIGS)
ANY_HOST: Final = "*"
OTHER_HOST: Final = "127.0.0.2"  # from which a client connects


@dataclass(frozen=True, slots=True)
class Acl:
    """Operations on resources of a kind. `name`: without the block's prefix, except `*`."""

    kind: int
    name: str
    operations: tuple[int, ...] = (ALL,)
    pattern: int = LITERAL
    host: str = ANY_HOST
    permission: int = ALLOW

    def creations(self, user: str, block: int) -> Iterable[Message]:
        name = self.name if self.name == "*" else f"b{block}-{self.name}"
        for operation in self.operations:
            yield Message(
                resource_type=self.kind,
                resource_name=name,
                resource_pattern_type=self.pattern,
                principal=f"User:{user}",
                host=self.host,
                operation=operation,
                permission_type=self.permission,
            )


@dataclass(frozen=True, slots=True)
class User:
    """`rules`: the settings of each of the user's rules, of which the first that matches counts.
    `address`: where it connects from."""

    name: str
    rules: tuple[Mapping[str, Any], ...]
    acls: tuple[Acl, ...]
    address: str = ""


def _everywhere(name: str, pattern: int, operations: tuple[int, ...] = (ALL,)) -> tuple[Acl, ...]:
    kinds = (TOPIC, GROUP, TRANSACTIONAL_ID)
    return tuple(Acl(kind, name, operations, pattern) for kind in kinds)


_AT_HOSTS: Final = (
    {"networks": [OTHER_HOST], "topics": ["b*-t0"], "groups": ["b*-g0"]},
    {"networks": ["127.0.0.0/8"], "topics": ["b*-t1"], "groups": ["b*-g1"]},
)
_OF_HOSTS: Final = (
    *(Acl(TOPIC, "t0", host=OTHER_HOST), Acl(GROUP, "g0", host=OTHER_HOST)),
    *(Acl(TOPIC, "t1", host="127.0.0.1"), Acl(GROUP, "g1", host="127.0.0.1")),
)
USERS: Final = (
    User(ADMINISTRATOR, ({"super_user": True},), ()),
    User("nobody", ({"groups": ["no"]},), ()),
    User(
        "everywhere",
        ({"topics": ["*"], "groups": ["*"], "transactional_ids": ["*"]},),
        _everywhere("*", LITERAL),
    ),
    User(
        "owner",
        ({"topics": ["b*-*"], "groups": ["b*-*"], "transactional_ids": ["b*-*"]},),
        _everywhere("", PREFIXED),
    ),
    User(
        READER,
        ({"read_only": True, "topics": ["b*-t0", "b*-t1"], "groups": ["b*-g0"]},),
        (
            Acl(TOPIC, "t0", READING),
            Acl(TOPIC, "t1", READING),
            Acl(GROUP, "g0", READING),
        ),
    ),
    User(
        "writer",
        ({"written_topics": ["b*-t[12]"], "groups": ["b*-g1"], "transactional_ids": ["b*-x0"]},),
        (
            Acl(TOPIC, "t1", CHANGING),
            Acl(TOPIC, "t2", CHANGING),
            Acl(GROUP, "g1"),
            Acl(TRANSACTIONAL_ID, "x0"),
        ),
    ),
    User(
        "copier",
        (
            {
                "topics": ["b*-t*"],
                "written_topics": ["b*-t3", "b*-t0"],
                "groups": ["b*-g*"],
                "transactional_ids": ["b*-x1"],
            },
        ),
        (
            Acl(TOPIC, "t", READING, PREFIXED),
            Acl(TOPIC, "t3", CHANGING),
            Acl(TOPIC, "t0", CHANGING),
            Acl(GROUP, "g", pattern=PREFIXED),
            Acl(TRANSACTIONAL_ID, "x1"),
        ),
    ),
    User(
        "denied",
        ({"topics": ["b*-t[!2]"], "groups": ["b*-g[!1]"], "transactional_ids": ["b*-x[!1]"]},),
        (
            Acl(TOPIC, "t", pattern=PREFIXED),
            Acl(TOPIC, "t2", permission=DENY),
            Acl(GROUP, "g", pattern=PREFIXED),
            Acl(GROUP, "g1", permission=DENY),
            Acl(TRANSACTIONAL_ID, "x", pattern=PREFIXED),
            Acl(TRANSACTIONAL_ID, "x1", permission=DENY),
        ),
    ),
    User(  # a right of one operation is denied, and the others are not
        "blind",
        ({"written_topics": ["b*-t*"], "transactional_ids": ["*"]},),
        (
            Acl(TOPIC, "t", pattern=PREFIXED),
            Acl(TOPIC, "t", (READ,), PREFIXED, permission=DENY),
            Acl(TRANSACTIONAL_ID, "*"),
        ),
    ),
    User("here", _AT_HOSTS, _OF_HOSTS),
    User("there", _AT_HOSTS, _OF_HOSTS, OTHER_HOST),
)


def settings(users_file: str) -> dict[str, Any]:
    """The rules of all users, as in a file of `serve --access`."""
    clients = [{"user": user.name, **rule} for user in USERS for rule in user.rules]
    return {"users_file": users_file, "clients": clients}


def lines() -> str:
    """The contents of a users' file."""
    return "".join(f"{user.name}:{PASSWORD}\n" for user in USERS)


def jaas() -> str:
    """The users in the configuration of Kafka's listener."""
    named = " ".join(f'user_{user.name}="{PASSWORD}"' for user in USERS)
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {named};"


def creations(block: int) -> Message:
    """The request that creates the ACLs for a block's names."""
    made = (acl.creations(user.name, block) for user in USERS for acl in user.acls)
    return Message(creations=[one for each in made for one in each])


def connected(address: tuple[str, int], user: User | None, seconds: float) -> Talk:
    """A connection to a server, of a user or of nobody in particular."""
    if user is None:
        return Talk(address, seconds=seconds)
    talk = Talk(address, seconds=seconds, source=user.address)
    response = talk.ask(ApiKey.SaslHandshake, 1, Message(mechanism=MECHANISM))
    assert not response.error_code, response
    token = f"\0{user.name}\0{PASSWORD}".encode()
    response = talk.ask(ApiKey.SaslAuthenticate, 1, Message(auth_bytes=token))
    assert not response.error_code, response
    return talk
