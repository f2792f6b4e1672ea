"""A run of operations against both servers, in blocks that begin with nothing.

A block has topics, groups and transactional ids of its own. It ends early where a change was
answered differently: the servers are not in step from then on.

    for difference in run(servers, operations=500, seed=1): print(difference)"""

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message

from .envelope import as_read
from .gateway_may_differ import GATEWAY_MAY_DIFFER
from .identities import KAFKA, OURS, SIDES, Identities
from .may_differ import MAY_DIFFER
from .operations import Operation, creation, operation
from .records_may_differ import is_damaged, names_twice
from .responses import ENDED, Place, differences, learn, plain
from .servers import MOMENT, PATIENCE, Pair, Servers
from .values import OWN_TOPICS, Known, Member

BLOCK: Final = 250
LEAVING: Final = (
    0.02  # how often a client leaves, perhaps while it waits for a response, and returns
)
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


# Each block begins with what most of its requests are about.
BEGIN: Final = (
    lambda known: creation(known.topics()[0], 1),
    lambda known: creation(known.topics()[1], 3),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A response that differs, and where."""

    block: int
    number: int
    operation: Operation
    path: str
    kafka: Any
    ours: Any

    def __str__(self) -> str:
        said = f"block {self.block}, {self.number}: {self.operation}\n  {self.path}"
        return f"{said}\n    Kafka {str(self.kafka)[:300]}\n    here  {str(self.ours)[:300]}"


@dataclass(slots=True)
class Run:
    """The requests so far."""

    servers: Servers
    seed: int
    versions: Mapping[ApiKey, range] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    allowed: Counter[str] = field(default_factory=Counter)
    denied: int = 0  # responses that refuse something for want of a right
    is_in_step: bool = True  # in this block

    def __post_init__(self) -> None:
        self.versions = self.servers.versions()

    def run(self, operations: int, block: int = 0) -> Iterator[Difference]:
        """So many operations, from this block on."""
        done = 0
        while done < operations:
            for found in self._block(block, min(BLOCK, operations - done), done):
                if isinstance(found, Difference):
                    yield found
                else:
                    done += 1
            block += 1

    def _block(self, block: int, count: int, first: int) -> Iterator[Difference | None]:
        random = Random(f"{self.seed}/{block}")
        self.is_in_step = True
        pairs = self.servers.pairs(f"{self.seed}/{block}", block)
        state = _Block(self, Known(block), Identities(f"b{block}-"), pairs)
        try:
            for number in range(first, first + count):
                asked = operation(random, state.known, self.versions)
                if number < first + len(BEGIN):
                    asked = BEGIN[number - first](state.known)
                if random.random() < LEAVING:
                    random.choice(pairs).reconnect()
                free = [pair for pair in pairs if pair.asked is None]
                if not free:
                    return
                self.asked[asked.api.name] += 1
                yield None
                pair = free[asked.client % len(free)]
                if pair.user is not None:  # whose rights are for the names as they are
                    envelope = replace(asked.envelope, changed=None)
                    asked = replace(asked, user=pair.user.name, envelope=envelope)
                for difference in state.ask(pair, number, asked):
                    yield difference
                    self.is_in_step = self.is_in_step and asked.api in READING
                if not self.is_in_step:
                    return
        finally:
            for pair in pairs:
                pair.close()

    def may_differ(self, asked: Operation, place: Place) -> bool:
        for one in GATEWAY_MAY_DIFFER if self.servers.is_gateway else MAY_DIFFER:
            if one.applies(asked, place):
                self.allowed[one.asked] += 1
                self.is_in_step = self.is_in_step and one.keeps_step
                return True
        return False


@dataclass(slots=True)
class _Block:
    run: Run
    known: Known
    identities: Identities
    pairs: list[Pair]
    ids: list[dict[str, bytes]] = field(default_factory=lambda: [{}, {}])  # of topics, now

    def ask(self, pair: Pair, number: int, asked: Operation) -> Iterator[Difference]:
        for again in range(AGAIN + 1):
            bodies = [self.identities.render(asked.body, side) for side in SIDES]
            if again:  # what Kafka does behind a response takes it a moment
                time.sleep(PAUSE)
                pair.send_again(bodies, SIDES if self.run.servers.is_gateway else (KAFKA,))
            else:
                pair.send(asked, bodies)
            waits = asked.api in WAITING or bool(getattr(asked.body, "max_wait_ms", 0))
            answered = pair.hear(MOMENT if waits else PATIENCE)
            if waits and answered != [True, True]:
                answered = pair.hear(PATIENCE / 10) if any(answered) else answered
            if answered == [False, False]:
                break  # it waits for others
            if answered != [True, True]:
                yield Difference(self.known.block, number, asked, "answered", *answered)
                return
            found = list(self._compared(pair, number, asked))
            is_late = _may_be_asked_again(asked) or any(str(one.kafka) in BUSY for one in found)
            if not found or not is_late or again == AGAIN:
                yield from found
                break
        for other in self.pairs:
            if other is not pair and other.asked is not None and any(other.hear(0.0)):
                earlier = other.asked
                answered = other.hear(PATIENCE / 10)
                if answered == [True, True]:
                    yield from self._compared(other, number, earlier)
                else:
                    yield Difference(self.known.block, number, earlier, "answered", *answered)
        if asked.api in ADMIN and self.run.is_in_step:
            yield from self._settled(number, asked)
        if asked.api in (ApiKey.EndTxn, ApiKey.InitProducerId):
            ids = Message(transactional_ids=self.known.transactional_ids())
            self.run.servers.until(lambda: self._states(ids, KAFKA) == self._states(ids, OURS))

    def _compared(self, pair: Pair, number: int, asked: Operation) -> Iterator[Difference]:
        kafkas, ours = pair.responses()
        if asked.envelope.changed is not None:
            asked = self._as_read(asked)
        if asked.api is ApiKey.Produce:
            # Which of its records are written may differ, and no response says so.
            is_unclear = names_twice(asked) or (asked.is_unanswered and is_damaged(asked))
            # Nothing of it is written, if its id is refused; at the gateway, if anything is.
            is_whole = self.run.servers.is_gateway or hasattr(asked.body, "transactional_id")
            is_refused = asked.is_unanswered and kafkas is None and bool(asked.user)
            is_unclear = is_unclear or (is_refused and is_whole)
            self.run.is_in_step = self.run.is_in_step and not is_unclear
        if kafkas is None or ours is None:
            pair.reconnect()
            if kafkas is not ours:
                ended = [ENDED if one is None else one for one in (kafkas, ours)]
                if not self.run.may_differ(asked, Place("", ended[0], ended[1], ({}, {}))):
                    yield Difference(self.known.block, number, asked, "", ended[0], ended[1])
            return
        known = learn(asked, (kafkas, ours), self.identities)
        theirs, own = (
            plain(one, side, self.identities) for side, one in ((KAFKA, kafkas), (OURS, ours))
        )
        self.run.denied += DENIED.search(str(theirs)) is not None
        if not hasattr(kafkas, "unreadable") and not hasattr(ours, "unreadable"):
            self._note(asked, kafkas, known)
        for place in differences(theirs, own):
            if not self.run.may_differ(asked, place):
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

    def _settled(self, number: int, asked: Operation) -> Iterator[Difference]:
        """Kafka's brokers hear of a change a moment after it is answered."""
        if not self.run.servers.until(lambda: self._topics(KAFKA) == self._topics(OURS)):
            kafkas, ours = (self._topics(side) for side in SIDES)
            yield Difference(self.known.block, number, asked, "topics, afterwards", kafkas, ours)
        self.known.topic_ids = {
            name: self.identities.learn("topic", self.ids[KAFKA][name], self.ids[OURS][name])
            for name in self.ids[KAFKA].keys() & self.ids[OURS].keys()
        }

    def _states(self, asked: Message, side: int) -> list[tuple[str, str]]:
        response = self.run.servers.ask(side, ApiKey.DescribeTransactions, 0, asked)
        return [
            (one.transactional_id, one.transaction_state) for one in response.transaction_states
        ]

    def _topics(self, side: int) -> Any:
        servers = self.run.servers
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


def _may_be_asked_again(asked: Operation) -> bool:
    """Whether Kafka gives the same response again: it reads, and belongs to no fetch session."""
    if asked.api is ApiKey.Fetch:
        return asked.version < SESSIONS_SINCE or asked.body.session_epoch == -1
    return asked.api in READING
