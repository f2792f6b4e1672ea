"""The conversion policy for each topic and client.

Not here: the message format (fetch_versions.py), the conversion (downconvert/conversion), reading
the records (reading_converted.py)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from downconvert import ConversionPolicy

REFUSE: Final = "refuse"
FOUND_MAX: Final = 1_000  # topics and clients with a remembered rule
NAMES_MAX: Final = 256  # characters of a client's names, for remembering
ENABLED: Final = "message.downconversion.enable"  # of a topic


@dataclass(frozen=True, slots=True)
class RecodeRule:
    """Replaces codecs, for some topics and some clients.

    Topics and clients are shell patterns. A client's names are the name in its ApiVersions request
    (`librdkafka/1.9.2`) and the client id of its requests. A rule applies if either matches."""

    recode: Mapping[str, str] = field(hash=False)  # as in ConversionPolicy
    topic: str = "*"
    client: str = "*"

    def fits(self, topic: str, names: tuple[str, ...]) -> bool:
        return fnmatchcase(topic, self.topic) and self.is_for(names)

    def is_for(self, names: tuple[str, ...]) -> bool:
        """Whether it applies to a client with these names, at least for some topics."""
        return any(fnmatchcase(name, self.client) for name in names)


# How real clients treat compressed messages of v0 and v1. kafka-node decompresses them in parallel
# and returns records out of order (2.0), takes relative offsets for absolute (2.6), never had lz4
# (5.0). kafka-go before 0.3 returns the wrapper as a record. kafka-rust, which sends no client id
# unless it is configured, drops the messages before a compressed message in the same set.
UNCOMPRESSED: Final = dict.fromkeys(("gzip", "snappy", "lz4", "zstd"), "none")
FAILS_ON_COMPRESSION: Final = ("kafka-node-client*", "*segmentio/kafka-go*", "")
DEFAULT_RULES: Final = tuple(
    RecodeRule(UNCOMPRESSED, client=client) for client in FAILS_ON_COMPRESSION
)


def is_enabled(topic_config: Mapping[str, str]) -> bool:
    """Whether a topic's records may be converted."""
    return topic_config.get(ENABLED, "true").strip().lower() != "false"


def names_of(software: str, version: str, client_id: str | None) -> tuple[str, ...]:
    """The client's names for rules. `software` is empty if the client does not send it."""
    return (f"{software}/{version}", client_id or "") if software else (client_id or "",)


class Policies:
    """The policies that result from rules. Thread-safe."""

    def __init__(self, rules: tuple[RecodeRule, ...]) -> None:
        self._rules = rules
        self._found: dict[tuple[str, tuple[str, ...]], RecodeRule | None] = {}

    def policy_for(
        self, policy: ConversionPolicy, topic: str, names: tuple[str, ...]
    ) -> ConversionPolicy:
        """The policy for a topic and a client with these names. The first matching rule decides.

        Codecs that the rule does not name keep the given policy."""
        try:
            rule = self._found[topic, names]
        except KeyError:
            rule = next((one for one in self._rules if one.fits(topic, names)), None)
            if sum(map(len, names)) <= NAMES_MAX:
                if len(self._found) >= FOUND_MAX:
                    self._found = {}
                self._found[topic, names] = rule
        return policy if rule is None else _recoded(policy, tuple(sorted(rule.recode.items())))


def zstd_recode(policy: ConversionPolicy, *, may_convert: bool) -> Mapping[str, str]:
    """The replacement for zstd, for a client that reads format v2 but not zstd. If the policy or
    the topic forbids one, zstd is refused, as in Kafka."""
    return {"zstd": policy.recode.get("zstd", REFUSE) if may_convert else REFUSE}


@lru_cache(maxsize=64)
def _recoded(policy: ConversionPolicy, recode: tuple[tuple[str, str], ...]) -> ConversionPolicy:
    """Applies a rule. It replaces the policy's own entry for a codec, in all formats."""
    named = {codec for codec, _ in recode}
    kept = {a: b for a, b in policy.recode.items() if a.partition(":")[0] not in named}
    return replace(policy, recode={**kept, **dict(recode)})
