"""A block of operations: both servers get the same requests, and their responses are compared.

Not here: which requests there are (operations.py, pipelines.py, waits.py)."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message

from .envelope import as_read
from .gateway_may_differ import GATEWAY_MAY_DIFFER
from .identities import KAFKA, OURS, SIDES, Identities
from .may_differ import MAY_DIFFER
from .operations import Operation
from .records_may_differ import is_damaged, names_twice
from .responses import ENDED, Place, differences, learn, plain
from .servers import MOMENT, PATIENCE, Pair, Servers
from .values import OWN_TOPICS, Known, Member

READING: Final = {
    ApiKey.Fetch,
    ApiKey.ListOffsets,
    ApiKey.Metadata,
    ApiKey.OffsetFetch,
    ApiKey.FindCoordinator,
    ApiKey.DescribeGroups,
    ApiKey.ListGroups,
    ApiKey.OffsetForLeaderEpoch,
    ApiKey.DescribeConfigs,
    ApiKey.DescribeCluster,
    ApiKey.DescribeLogDirs,
    ApiKey.DescribeProducers,
    ApiKey.DescribeTransactions,
    ApiKey.ListTransactions,
    ApiKey.DescribeAcls,
    ApiKey.ApiVersions,
    ApiKey.SaslHandshake,
    ApiKey.SaslAuthenticate,
}
AGAIN, PAUSE = 100, 0.02  # how often Kafka is asked again, and how long after (seconds)
SESSIONS_SINCE: Final = 7
WAITING: Final = {ApiKey.JoinGroup, ApiKey.SyncGroup}
DENIED: Final = re.compile(r"error_code': (29|30|31|53)\b")
BUSY: Final = {"14", "15", "16", "51", "68"}  # a coordinator, or a group, that is not ready yet
ADMIN: Final = {
    ApiKey.CreateTopics,
    ApiKey.DeleteTopics,
    ApiKey.CreatePartitions,
    ApiKey.AlterConfigs,
    ApiKey.IncrementalAlterConfigs,
    ApiKey.Metadata,
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A response that differs, and where. meanwhile: what others asked while it was due."""

    block: int
    number: int
    operation: Operation
    path: str
    kafka: Any
    ours: Any
    meanwhile: tuple[Operation, ...] = ()

    def __str__(self) -> str:
        said = f"block {self.block}, {self.number}: {self.operation}"
        said += "".join(f"\n  meanwhile {one}" for one in self.meanwhile)
        said += f"\n  {self.path}"
        return f"{said}\n    Kafka {str(self.kafka)[:300]}\n    here  {str(self.ours)[:300]}"


@dataclass(slots=True)
class Block:
    """The state of the servers, as far as it is known, and the clients."""

    servers: Servers
    known: Known
    identities: Identities
    pairs: list[Pair]
    allowed: Counter[str] = field(default_factory=Counter)  # differences that may be
    denied: int = 0  # responses that refuse something for want of a right
    is_in_step: bool = True  # whether the servers are in the same state
    ids: list[dict[str, bytes]] = field(default_factory=lambda: [{}, {}])  # of topics, now

    def ask(self, pair: Pair, number: int, asked: Operation) -> Iterator[Difference]:
        """Sends a request to both servers. It may leave the client waiting for others."""
        for again in range(AGAIN + 1):
            bodies = [self.identities.render(asked.body, side) for side in SIDES]
            if again:  # what Kafka does behind a response takes it a moment
                time.sleep(PAUSE)
                pair.send_again(bodies, SIDES if self.servers.is_gateway else (KAFKA,))
            else:
                pair.send(asked, bodies)
            waits = asked.api in WAITING or bool(getattr(asked.body, "max_wait_ms", 0))
            answered = pair.hear(MOMENT if waits else PATIENCE)
            if waits and answered != [True, True]:
                answered = pair.hear(PATIENCE / 10) if any(answered) else answered
            if answered == [False, False]:
                break  # it waits for others
            if answered != [True, True]:
                yield Difference(
                    self.known.block, number, asked, "answered", answered[0], answered[1]
                )
                return
            found = list(self.compare_heard(pair, number, asked))
            is_late = may_be_asked_again(asked) or any(str(one.kafka) in BUSY for one in found)
            if not found or not is_late or again == AGAIN:
                yield from found
                break
        for other in self.pairs:
            if other is pair or other.asked is None or other.is_held:
                continue
            if any(other.hear(0.0)):
                earlier = other.asked
                answered = other.hear(PATIENCE / 10)
                if answered == [True, True]:
                    yield from self.compare_heard(other, number, earlier)
                else:
                    yield Difference(
                        self.known.block, number, earlier, "answered", answered[0], answered[1]
                    )
        yield from self.settle(number, asked)

    def settle(self, number: int, asked: Operation) -> Iterator[Difference]:
        """Waits until both servers have done what follows the response to a request."""
        if asked.api in ADMIN and self.is_in_step:
            yield from self._settled(number, asked)
        if asked.api in (ApiKey.EndTxn, ApiKey.InitProducerId):
            ids = Message(transactional_ids=self.known.transactional_ids())
            self.servers.until(lambda: self._states(ids, KAFKA) == self._states(ids, OURS))

    def compare_heard(self, pair: Pair, number: int, asked: Operation) -> Iterator[Difference]:
        """Where the responses differ that a client has got from both servers."""
        kafkas, ours = pair.responses()
        if kafkas is None or ours is None:
            pair.reconnect()
        yield from self.compare(number, asked, (kafkas, ours))

    def compare(
        self, number: int, asked: Operation, responses: tuple[Message | None, Message | None]
    ) -> Iterator[Difference]:
        """Where the responses to a request differ. None: the connection has ended."""
        kafkas, ours = responses
        if asked.envelope.changed is not None:
            asked = self._as_read(asked)
        if asked.api is ApiKey.Produce:
            # Which of its records are written may differ, and no response says so.
            is_unclear = names_twice(asked) or (asked.is_unanswered and is_damaged(asked))
            # The cluster may refuse it, and the connection ends after the next responses.
            is_late = self.servers.is_gateway and asked.is_unanswered
            is_unclear = is_unclear or (is_late and "odd: " in repr(asked.body))
            # Nothing of it is written, if its id is refused.
            is_refused = asked.is_unanswered and kafkas is None and bool(asked.user)
            has_id = getattr(asked.body, "transactional_id", None) is not None
            is_unclear = is_unclear or (is_refused and has_id)
            self.is_in_step = self.is_in_step and not is_unclear
        if kafkas is None or ours is None:
            if kafkas is not ours:
                ended = [ENDED if one is None else one for one in responses]
                if not self.may_differ(asked, Place("", ended[0], ended[1], ({}, {}))):
                    yield Difference(self.known.block, number, asked, "", ended[0], ended[1])
            return
        known = learn(asked, (kafkas, ours), self.identities)
        theirs, own = (
            plain(one, side, self.identities) for side, one in ((KAFKA, kafkas), (OURS, ours))
        )
        self.denied += DENIED.search(str(theirs)) is not None
        if not hasattr(kafkas, "unreadable") and not hasattr(ours, "unreadable"):
            self._note(asked, kafkas, known)
        for place in differences(theirs, own):
            if not self.may_differ(asked, place):
                yield Difference(
                    self.known.block, number, asked, place.path, place.kafka, place.ours
                )

    def _as_read(self, asked: Operation) -> Operation:
        """A request in which a byte was changed, with the fields that it has now."""
        body = self.identities.render(asked.body, OURS)
        try:
            body = as_read(asked.envelope, asked.api, asked.version, body)
        except BadRequestError as error:
            return replace(asked, envelope=replace(asked.envelope, error=str(error)))
        return replace(asked, body=body)

    def _note(self, asked: Operation, response: Message, known: dict[str, Any]) -> None:
        """Remembers what the next requests need."""
        body, state = asked.body, self.known
        match asked.api:
            case ApiKey.JoinGroup if "member" in known:
                generation = max(getattr(response, "generation_id", -1), -1)
                state.members = [one for one in state.members if one.token != known["member"]]
                state.members.append(Member(body.group_id, known["member"], generation))
            case ApiKey.InitProducerId if "producer" in known:
                state.producers[body.transactional_id] = known["producer"], response.producer_epoch
            case ApiKey.Produce if asked.is_unanswered:
                state.note_sequences(body)
            case ApiKey.Produce:
                for topic in response.responses:
                    for one in topic.partition_responses:
                        if not one.error_code:
                            state.note_sequences(body)
            case ApiKey.Fetch if asked.version >= 7:
                _, epoch = state.session
                if response.error_code or "session" not in known:
                    state.session = (0, -1) if epoch else (0, 0)
                else:
                    state.session = known["session"], max(0, body.session_epoch) + 1

    def may_differ(self, asked: Operation, place: Place) -> bool:
        """Whether a difference is one of those that may be. Notes it."""
        for one in GATEWAY_MAY_DIFFER if self.servers.is_gateway else MAY_DIFFER:
            if one.applies(asked, place):
                self.allowed[one.asked] += 1
                self.is_in_step = self.is_in_step and one.keeps_step
                return True
        return False

    def _settled(self, number: int, asked: Operation) -> Iterator[Difference]:
        """Kafka's brokers hear of a change a moment after it is answered."""
        if not self.servers.until(lambda: self._topics(KAFKA) == self._topics(OURS)):
            kafkas, ours = (self._topics(side) for side in SIDES)
            yield Difference(self.known.block, number, asked, "topics, afterwards", kafkas, ours)
        self.known.topic_ids = {
            name: self.identities.learn("topic", self.ids[KAFKA][name], self.ids[OURS][name])
            for name in self.ids[KAFKA].keys() & self.ids[OURS].keys()
        }

    def _states(self, asked: Message, side: int) -> list[tuple[str, str]]:
        response = self.servers.ask(side, ApiKey.DescribeTransactions, 0, asked)
        return [
            (one.transactional_id, one.transaction_state) for one in response.transaction_states
        ]

    def _topics(self, side: int) -> Any:
        servers = self.servers
        names = [*self.known.topics(), self.known.nobody, *OWN_TOPICS]
        asked = Message(topics=[Message(name=name) for name in names])
        there = servers.ask(side, ApiKey.Metadata, 12, asked).topics
        found = {
            one.name: {each.partition_index for each in one.partitions}
            for one in there
            if not one.error_code and one.name not in OWN_TOPICS
        }
        self.ids[side] = {one.name: bytes(one.topic_id) for one in there if not one.error_code}
        resources = [Message(resource_type=2, resource_name=name) for name in found]
        body = Message(resources=resources, include_synonyms=False)
        configs = {
            one.resource_name: {
                each.name: each.value for each in one.configs if each.config_source == 1
            }
            for one in servers.ask(side, ApiKey.DescribeConfigs, 1, body).results
        }
        topics = [
            Message(
                name=name,
                partitions=[Message(partition_index=index, timestamp=-1) for index in indices],
            )
            for name, indices in found.items()
        ]
        body = Message(replica_id=-1, topics=topics)
        errors = {
            (one.name, each.partition_index, each.error_code)
            for one in servers.ask(side, ApiKey.ListOffsets, 1, body).topics
            for each in one.partitions
        }
        return found, configs, errors


def may_be_asked_again(asked: Operation) -> bool:
    """Whether Kafka gives the same response again: it reads, and belongs to no fetch session."""
    if asked.api is ApiKey.Fetch:
        return asked.version < SESSIONS_SINCE or asked.body.session_epoch == -1
    return asked.api in READING
