"""A run of operations against both servers, in blocks that begin with nothing.

A block has topics, groups and transactional ids of its own. It ends early where a change was
answered differently: the servers are not in step from then on.

    for difference in run(servers, operations=500, seed=1): print(difference)"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, TypeAlias

from downconvert.protocol.schemas import ApiKey

from .block import READING, Block, Difference
from .crowds import ask_crowd, crowd
from .identities import Identities
from .operations import Operation, creation, operation
from .pipelines import ask_pipelined, pipeline
from .servers import PAIRS, Servers
from .users import User
from .values import PARTITIONS, Known
from .waits import ask_waiting, changes, ends_of, waiting_fetches

BLOCK: Final = 250
LEAVING: Final = (
    0.02  # how often a client leaves, perhaps while it waits for a response, and returns
)
# How operations are sent: one at a time; several before the first is answered; or while fetches of
# other clients wait.
ALONE, PIPELINED, WAITING = "alone", "pipelined", "waiting"
LARGE: Final = "large"  # one at a time, with long names, many partitions and extreme numbers
WAYS: Final = (ALONE, PIPELINED, WAITING, LARGE)
CROWDS: Final = 0.3  # of the blocks with large states have a group with hundreds of members
CLIENTS: Final = 8  # of a block in which fetches wait

Scene: TypeAlias = tuple[list[Operation], Iterator[Difference]]  # some requests

# Each block begins with what most of its requests are about.
BEGIN: Final = (
    lambda known: creation(known.topics()[0], 1),
    lambda known: creation(known.topics()[1], 3),
)


@dataclass(slots=True)
class Run:
    """The requests so far. ways: those in which they are sent."""

    servers: Servers
    seed: int
    ways: Sequence[str] = (ALONE,)
    versions: Mapping[ApiKey, range] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    allowed: Counter[str] = field(default_factory=Counter)
    denied: int = 0  # responses that refuse something for want of a right

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
                    done += found
            block += 1

    def _block(self, block: int, count: int, first: int) -> Iterator[Difference | int]:
        random = Random(f"{self.seed}/{block}")
        clients = CLIENTS if WAITING in self.ways else PAIRS
        pairs = self.servers.pairs(f"{self.seed}/{block}", block, clients)
        identities = Identities(f"b{block}-")
        is_large = LARGE in self.ways
        state = Block(self.servers, Known(block, is_large), identities, pairs, self.allowed)
        number = first
        try:
            while number < first + count:
                scene = self._scene(state, random, number, number - first)
                if scene is None:
                    return
                asked, found = scene
                self.asked.update(one.api.name for one in asked)
                yield len(asked)
                number += len(asked)
                for difference in found:
                    yield difference
                    if difference.operation.api not in READING:
                        state.is_in_step = False
                if not state.is_in_step:
                    return
        finally:
            self.denied += state.denied
            if is_large:  # or thousands of partitions would be there
                self.servers.delete(state.known.topics())
            for pair in pairs:
                pair.close()

    def _scene(self, state: Block, random: Random, number: int, done: int) -> Scene | None:
        """The next operations, and where their responses differ. None: no client is free."""
        way = random.choice(self.ways) if len(self.ways) > 1 else self.ways[0]
        if way == LARGE and done == len(BEGIN) and random.random() < CROWDS:
            made = crowd(random, state.known.block)
            return made, ask_crowd(state, number, made, random)
        if done < len(BEGIN) or way in (ALONE, LARGE):
            return self._alone(state, random, number, done)
        free = [pair for pair in state.pairs if pair.asked is None]
        if way == PIPELINED and free:
            pair = random.choice(free)
            made = pipeline(random, state.known, self.versions)
            made = [_by(pair.user, one) for one in made]
            return made, ask_pipelined(state, pair, number, made, random)
        ends = ends_of(state)
        if len(free) < 2 or not ends:
            return None
        known, versions = state.known, self.versions
        fetches = waiting_fetches(random, known, versions[ApiKey.Fetch], ends, len(free) - 1)
        meanwhile = changes(random, known, versions, ends)
        return fetches + meanwhile, ask_waiting(state, free, number, fetches, meanwhile)

    def _alone(self, state: Block, random: Random, number: int, done: int) -> Scene | None:
        asked = operation(random, state.known, self.versions)
        if done < len(BEGIN):
            asked = BEGIN[done](state.known)
            if state.known.is_large:
                asked.body.topics[0].num_partitions *= PARTITIONS // 3
        if random.random() < LEAVING:
            random.choice(state.pairs).reconnect()
        free = [pair for pair in state.pairs if pair.asked is None]
        if not free:
            return None
        pair = free[asked.client % len(free)]
        asked = _by(pair.user, asked)
        return [asked], state.ask(pair, number, asked)


def _by(user: User | None, asked: Operation) -> Operation:
    """An operation of a client. Users' rights are for the names as they are."""
    if user is None:
        return asked
    return replace(asked, user=user.name, envelope=replace(asked.envelope, changed=None))
