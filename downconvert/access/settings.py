"""Rights and identities as an operator writes them: the same names for a gateway and for a broker.

    users_file = "/etc/downconvert/users"
    topics = ["metrics-*"]

    [[clients]]
    user = "loader-*"
    written_topics = ["metrics-raw-*"]

    [[clients]]
    networks = ["10.1.0.0/16"]
    read_only = true

Not here: their meaning (rights.py, identity.py)."""

import tomllib
from collections.abc import Callable, Mapping, Set
from dataclasses import fields, replace
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Any, Final

from .identity import C, ClientRule, Identities, Users
from .rights import Access, ConfigError, Network, parse_network
from .tokens import Tokens, TokenSettings

RULE: Final = frozenset({"user", "group", "certificate", "networks"})  # the clients of a rule
RATES: Final = frozenset({"producer_byte_rate", "consumer_byte_rate"})
# Limits of each client, in a gateway's file only.
CONNECTIONS: Final = "connections"
CLIENT_LIMITS: Final = frozenset({CONNECTIONS, "connection_creation_rate", "request_percentage"})
LISTS: Final = ("topics", "written_topics", "groups", "transactional_ids")
RIGHTS: Final = RATES | {*LISTS, "read_only"}
SUPER_USER: Final = "super_user"
FOLLOWERS: Final = "follower_ids"  # only in a broker's file, because gateways have no followers
DENIES: Final = "deny_by_default"
TOP: Final = RIGHTS | {"networks", "users_file", "client_ca", "oauth", "clients", DENIES}
WORDS: Final[dict[Callable[..., Any], str]] = {
    bool: "true or false",
    dict: "a table",
    int: "a whole number",
    list: "a list",
    str: "a text",
}
OAUTH: Final = frozenset(field.name for field in fields(TokenSettings))


def load(path: Path) -> dict[str, Any]:
    """Reads a file's settings. ConfigError: the file is not TOML. OSError: it cannot be read."""
    data = path.read_bytes()
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}: line {line} is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from None


def access_of(settings: Mapping[str, Any], default: Access) -> Access:
    """Reads rights. Unset ones are taken from `default`. ConfigError."""
    named: dict[str, Any] = {
        name: tuple(texts_of(settings, name)) for name in LISTS if name in settings
    }
    for name in (RATES | CLIENT_LIMITS) & settings.keys():
        named[name] = float(number_of(settings, name))
    if CONNECTIONS in named:
        named[CONNECTIONS] = _whole(named[CONNECTIONS])
    networks = networks_of(settings, "networks")
    named["is_read_only"] = value_of(bool, settings, "read_only", default.is_read_only)
    named["denies_unnamed"] = value_of(bool, settings, DENIES, default.denies_unnamed)
    if FOLLOWERS in settings:
        named["follower_ids"] = _follower_ids(settings)
    return replace(default, networks=networks, **named)


def _whole(number: float) -> int:
    if not number.is_integer():
        raise ConfigError(f"{CONNECTIONS} must be a whole number, not {number:g}")
    return int(number)


def _follower_ids(settings: Mapping[str, Any]) -> frozenset[int]:
    found = value_of(list, settings, FOLLOWERS, [])
    if not found or any(type(one) is not int or one < 0 for one in found):
        raise ConfigError(f"{FOLLOWERS} must be a list of brokers' ids: write for example [2, 3]")
    return frozenset(found)


def identities_of(
    settings: Mapping[str, Any],
    default: Access,
    credentials_of: Callable[[Mapping[str, Any]], C],
    more_names: frozenset[str] = frozenset(),
) -> Identities[C]:
    """Reads users, certificates and rules. `default`: the rights of the whole listener, for rules
    that set none. `credentials_of`: reads the credentials from a rule's table, whose names may
    include `more_names`. ConfigError."""
    return Identities(
        users=_users(settings),
        tokens=_tokens(settings),
        client_ca=value_of(str, settings, "client_ca", None),
        rules=tuple(
            _rule(settings, table, default, credentials_of, more_names)
            for table in value_of(list, settings, "clients", [])
        ),
    )


def _users(settings: Mapping[str, Any]) -> Users | None:
    path = value_of(str, settings, "users_file", None)
    if path is None:
        return None
    try:
        users = Users.load(Path(path))
    except OSError as error:
        raise ConfigError(f"users_file: {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ConfigError(f"users_file: {error}") from None
    assert isinstance(users, Users)
    return users


def _tokens(settings: Mapping[str, Any]) -> Tokens | None:
    if "oauth" not in settings:
        return None
    table = table_of(settings, "oauth")
    check_known("a setting of [oauth]", table, OAUTH)
    values: dict[str, Any] = {}
    for name in table:
        if name in ("audience", "scope"):
            values[name] = tuple(texts_of(table, name))
        elif name in ("clock_skew", "renew_seconds"):
            values[name] = float(number_of(table, name))
        else:
            values[name] = value_of(str, table, name, None)
    try:
        tokens = Tokens(TokenSettings(**values))
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"[oauth] needs the package {error.name}: pip install 'lazy-downconvert[oauth]'"
        ) from None
    tokens.check()
    return tokens


def _rule(
    settings: Mapping[str, Any],
    table: object,
    default: Access,
    credentials_of: Callable[[Mapping[str, Any]], C],
    more_names: frozenset[str],
) -> ClientRule[C]:
    if not isinstance(table, dict):
        raise ConfigError("clients are tables: write [[clients]] before each")
    check_known("a setting of [[clients]]", table, RULE | RIGHTS | {SUPER_USER} | more_names)
    if not RULE & table.keys():
        raise ConfigError("a rule of [[clients]] needs a user, a group, a certificate or networks")
    user, group, certificate = (
        value_of(str, table, name, None) for name in ("user", "group", "certificate")
    )
    if user is not None and not settings.keys() & {"users_file", "oauth"}:
        raise ConfigError(f"a rule for user {user!r} needs users_file or [oauth]")
    if group is not None and "groups_claim" not in table_of(settings, "oauth"):
        raise ConfigError(f"a rule for group {group!r} needs groups_claim under [oauth]")
    if certificate is not None and "client_ca" not in settings:
        raise ConfigError(f"a rule for certificate {certificate!r} needs client_ca")
    if value_of(bool, table, SUPER_USER, False):
        limits = sorted(table.keys() & {*LISTS, "read_only"})
        if limits:
            raise ConfigError(f"a rule with {SUPER_USER} allows everything: leave out {limits[0]}")
        rates = {name: getattr(default, name) for name in RATES | CLIENT_LIMITS}
        default = Access(**rates)
    access = access_of(table, default)
    return ClientRule(
        access=replace(access, networks=()),
        credentials=credentials_of(table),
        user=user,
        group=group,
        certificate=certificate,
        networks=access.networks,
    )


# --- values of a file


def check_known(what: str, settings: Mapping[str, Any], known: Set[str]) -> None:
    """ConfigError: a name is unknown, probably misspelt."""
    unknown = settings.keys() - known
    if unknown:
        name = min(unknown)
        (close,) = get_close_matches(name, sorted(known), 1) or [""]
        raise ConfigError(
            f"{name!r} is not {what}; "
            + (f"is {close} meant?" if close else f"there are: {', '.join(sorted(known))}")
        )


def table_of(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    return dict(value_of(dict, settings, name, {}))


def texts_of(settings: Mapping[str, Any], name: str) -> list[str]:
    """The texts of a list, or of one text with commas."""
    if name not in settings:
        return []
    texts = settings[name]
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"{name} must be a list of texts")
    parts = [part.strip() for text in texts for part in text.split(",")]
    if not any(parts):
        # An empty list would mean "all", although the operator wanted to restrict.
        raise ConfigError(f"{name} is an empty list: name something, or leave {name} out")
    return [part for part in parts if part]


def number_of(settings: Mapping[str, Any], name: str) -> Any:
    value = settings[name]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < inf:
        raise ConfigError(f"{name} must be a number above 0, not {value!r}")
    return value


def networks_of(settings: Mapping[str, Any], name: str) -> tuple[Network, ...]:
    try:
        return tuple(map(parse_network, texts_of(settings, name)))
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def value_of(kind: Callable[..., Any], settings: Mapping[str, Any], name: str, default: Any) -> Any:
    """The value of a setting, checked to be of this type, or the default."""
    value = settings.get(name, default)
    if value == "" and name in settings:
        raise ConfigError(f"{name} is empty: leave it out, or say what it is")
    if value is not default and type(value) is not kind:
        if kind is list and isinstance(value, dict):
            raise ConfigError(f"{name} is one table: write [[{name}]] instead of [{name}]")
        raise ConfigError(f"{name} is {value!r}, which should be {WORDS[kind]}")
    return value
