"""Sends parsed requests to the cluster and makes the clients' responses.

Not here: translating one API (translation.py, fetching.py, recoding.py, producing.py), which
requests are parsed (session.py)."""

from collections.abc import Callable, Generator
from functools import lru_cache, partial
from typing import Final

from downconvert import ConversionPolicy
from downconvert.access.rights import Access
from downconvert.gateway.advertised import Advertised
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.topology import WITH_ADDRESSES
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.conversions import REFUSE, Policies

from . import fetching, producing, recoding, translation
from .exchanges import Ask, Asking, HangUp, Turn
from .headers import Header
from .shared import Shared
from .versions import Versions

TOPICS_MAX: Final = 64  # with cached policies, for one client
METADATA_SAYS_WHAT_TO_MAKE: Final = 4  # the first version with allow_auto_topic_creation


class Translator:
    """Translates for one client and one broker. `advertised`: the brokers' addresses for the
    client.

    `names` of a request: the client's names for rules."""

    __slots__ = ("_access", "_advertised", "_names", "_policy_of", "_shared", "_versions")

    def __init__(
        self, shared: Shared, versions: Versions, access: Access, advertised: Advertised
    ) -> None:
        self._shared = shared
        self._versions = versions
        self._access = access
        self._advertised = advertised
        self._names: tuple[str, ...] | None = None  # of the last fetch
        self._policy_of: Callable[[str], ConversionPolicy]  # for these names, by topic

    def ask(
        self, header: Header, body: Message, now: float, names: tuple[str, ...]
    ) -> Generator[Ask | Turn, Message, Message | HangUp | None]:
        """The client's response. None: the client expects none. BadRequestError: the request cannot
        be answered."""
        api, version = header.api, header.version
        assert api is not None, "only what is known has fields"
        served = self._versions.cluster[api]
        passes = self._versions.passes(api, version)
        if api is ApiKey.Fetch:
            return (yield from self._fetch(header, body, names))
        if api is ApiKey.Produce and version < producing.FIRST_WITH_V2:
            produced = yield from producing.produce(body, served, now)
            if produced is None:
                return HangUp("a produce with acks=0 was refused")
            return produced if body.acks else None
        if api is ApiKey.Metadata:
            response = yield from self._metadata(version, body)
        elif passes:
            response = yield Ask(api, version, body)
        else:
            nearest = self._versions.nearest(api)
            response = yield from translation.translate(api, body, version, nearest)
        if api is ApiKey.Produce and not body.acks:
            return None
        if api in WITH_ADDRESSES:
            self._shared.topology.rewrite(api, version, response, self._advertised)
        return response

    def _fetch(self, header: Header, body: Message, names: tuple[str, ...]) -> Asking:
        served = self._versions.cluster[ApiKey.Fetch]
        policies = self.policies(names)
        if not self._versions.passes(ApiKey.Fetch, header.version):
            if not fetching.can_serve(header.version, served):
                raise BadRequestError(
                    f"{header.name} cannot be translated: the cluster serves {served}"
                )
            return (yield from fetching.fetch(body, header.version, served, policies))
        if self.may_be_recoded(header, names):
            return (yield from recoding.fetch(body, header.version, served, policies))
        return (yield from recoding.as_it_is(body, header.version))

    def _metadata(self, version: int, body: Message) -> Asking:
        """Asks in a version that can ask for no topics, and can forbid creating topics."""
        served = self._versions.cluster[ApiKey.Metadata]
        names = [one.name for one in body.topics or () if one.name is not None]
        if not all(map(self._access.allows_writing, names)):
            body.allow_auto_topic_creation = False
        oldest = max(served.start, min(METADATA_SAYS_WHAT_TO_MAKE, served.stop - 1))
        return (yield Ask(ApiKey.Metadata, max(version, oldest), body))

    def may_be_recoded(self, header: Header, names: tuple[str, ...]) -> bool:
        """Whether the cluster may answer a fetch with records that the client cannot read."""
        if header.api is not ApiKey.Fetch:
            return False
        if not recoding.can_serve(header.version, self._versions.cluster[ApiKey.Fetch]):
            return False
        config = self._shared.config
        rules = [rule.recode for rule in config.recode_rules if rule.is_for(names)]
        recodes = [config.policy.recode, *rules]
        return any(recode.get(recoding.CODEC, REFUSE) != REFUSE for recode in recodes)

    def policies(self, names: tuple[str, ...]) -> Callable[[str], ConversionPolicy]:
        """How records are converted for this client, by topic."""
        if names != self._names:
            self._names = names
            # It does not refer to this object, which is freed without a collection of garbage.
            self._policy_of = lru_cache(TOPICS_MAX)(partial(_policy, self._shared.config, names))
        return self._policy_of


def _policy(config: GatewayConfig, names: tuple[str, ...], topic: str) -> ConversionPolicy:
    return Policies(config.recode_rules).policy_for(config.policy, topic, names)
