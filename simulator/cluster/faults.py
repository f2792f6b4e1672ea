"""The faults of a simulated cluster, and their times, drawn from the seed.

An acknowledged record is on min.insync.replicas machines, and is lost if all of them lose it. So at
any time, fewer machines than that may have lost unflushed data without having caught up."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from .context import Context
from .membership import CONTROLLER
from .node import Node

DOWN: Final = 0.3, 4.0  # seconds, from and to
FLUSH_EVERY: Final = 2.0  # seconds


class Faults:
    """The faults of one run, until `stop`."""

    def __init__(
        self,
        context: Context,
        nodes: Sequence[Node],
        client_hosts: Sequence[str],
        on_death: Callable[[Node], None],
    ) -> None:
        """on_death: called with each broker that has been killed."""
        self.happened: dict[str, int] = {}
        self._context = context
        self._nodes = nodes
        self._client_hosts = client_hosts
        self._on_death = on_death
        self._random = Random(f"{context.options.seed}/faults")
        self._is_stopped = False
        kinds: dict[str, Callable[[], bool]] = {
            "delays": self._delay,
            "drops": self._drop,
            "stalls": self._stall,
            "resets": self._reset,
            "kills": self._kill,
            "torn-disks": self._tear,
            "full-disks": self._fill,
            "elections": self._elect,
        }
        chosen = context.options.faults
        self._kinds = [(name, kinds[name]) for name in chosen if name in kinds]
        context.network.is_uneven = "reorders" in chosen
        context.network.stalls = 0.05 if "stalls" in chosen else 0.0
        self._next()
        self._flush()

    def stop(self) -> None:
        """Ends all faults; brokers that are down start again."""
        self._is_stopped = True
        self._context.network.heal()
        for node in self._nodes:
            if node.disk is not None:
                node.disk.fill(is_full=False)
                node.disk.dies_never()
            node.pause(0)

    def _next(self) -> None:
        context = self._context
        if self._is_stopped:
            return
        context.timeline.after(self._random.expovariate(1 / context.options.fault_every), self._do)

    def _do(self) -> None:
        if self._is_stopped:
            return
        if self._kinds:
            name, act = self._random.choice(self._kinds)
            if act():
                self.happened[name] = self.happened.get(name, 0) + 1
        self._next()

    # --- kinds: each returns whether it happened

    def _node(self) -> Node:
        return self._random.choice(self._nodes)

    def _ends(self) -> tuple[str, str]:
        """The hosts of a random link: two brokers, or a broker and a client or the controller."""
        nodes, random = self._nodes, self._random
        others = [CONTROLLER, *(n.host for n in nodes), *self._client_hosts]
        node = random.choice(nodes).host
        return node, random.choice([host for host in others if host != node])

    def _delay(self) -> bool:
        seconds, by = self._random.uniform(0.5, 3), self._random.choice((0.05, 0.5, 3))
        self._context.network.slow_down(*self._ends(), seconds, by)
        return True

    def _drop(self) -> bool:
        network, seconds = self._context.network, self._random.uniform(0.3, 5)
        if self._random.random() < 0.5:
            network.cut(*self._ends(), seconds)
            return True
        cut_off = self._node()  # from all other brokers, and maybe from the controller
        for node in self._nodes:
            if node is not cut_off:
                network.cut(cut_off.host, node.host, seconds)
        if self._random.random() < 0.7:
            network.cut(cut_off.host, CONTROLLER, seconds)
        return True

    def _stall(self) -> bool:
        self._node().pause(self._random.choice((0.1, 1.0, 4.0)) * self._random.random())
        return True

    def _reset(self) -> bool:
        connections = sorted(self._node().connections, key=lambda c: c.host)
        for connection in connections:
            if self._random.random() < 0.5:
                connection.reset()
        return bool(connections)

    def _kill(self) -> bool:
        node = self._node()
        if not node.is_up:
            return False
        self._end(node, power=False)
        return True

    def _tear(self) -> bool:
        node = self._node()
        lost = {n.id for n in self._nodes if n.has_lost or n.may_lose}
        if not node.is_up or len(lost | {node.id}) >= self._context.options.min_insync:
            return False
        self._end(node, power=True)
        return True

    def _end(self, node: Node, *, power: bool) -> None:
        if self._random.random() < 0.6:
            node.die_in(self._random.randint(1, 12), power=power)
        else:
            node.die(power=power)
            self._on_death(node)

    def _fill(self) -> bool:
        node = self._node()
        if node.disk is None:
            return False
        disk = node.disk
        disk.fill(is_full=True)
        self._context.timeline.after(self._random.uniform(0.2, 2), lambda: disk.fill(is_full=False))
        return True

    def _elect(self) -> bool:
        name = self._random.choice(sorted(self._context.assignment))
        self._context.controller.move_leader(name, self._random.randrange(9))
        return True

    # --- no faults

    def down_time(self) -> float:
        """Seconds until a broker that has died starts again."""
        return 0.1 if self._is_stopped else self._random.uniform(*DOWN)

    def _flush(self) -> None:
        """A machine writes dirty pages back now and then."""
        if self._is_stopped:
            return
        self._node().flush()
        self._context.timeline.after(self._random.expovariate(1 / FLUSH_EVERY), self._flush)
