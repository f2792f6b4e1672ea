"""One mode, run and measured: a sender in one child process, its consumers in another.

The parent samples the sender's memory from outside, so that it is seen even during a conversion."""

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from records.backend import NAME
from simulator.children import Child, Parent, SimulationError, messages_of
from simulator.measure import Cpu, Memory, Resident, now
from simulator.modes import Mode

from .consumers import Consumers, Expected, Reading
from .driver import Driver
from .fetches import Fetch
from .options import SEND_BUFFER_SIZE, Options
from .plan import Ending, Plan, make_plan
from .responses import Responses
from .results import Run, Sent

_SAMPLE_EVERY: Final = 0.005  # seconds
_REPORT_EVERY: Final = 0.1  # seconds
_STALLED_AFTER: Final = 600.0  # seconds without a response: a defect, not a slow machine

Progress = Callable[[int], None]


def plan_in_child(
    mode: Mode,
    paths: Sequence[Path],
    options: Options,
    endings: Mapping[int, Ending],
    progress: Progress,
) -> Plan:
    """`make_plan` in a child process. If an eager conversion needs more memory than there is, only
    the child ends."""
    with Child("planning", _plan, mode, list(paths), options, dict(endings)) as child:
        while not child.done:
            for done in messages_of([child]):
                progress(done)
        plan: Plan = child.result
        return plan


def run(mode: Mode, paths: Sequence[Path], options: Options, plan: Plan, progress: Progress) -> Run:
    """Sends the plan's fetches to all consumers and measures. `progress` is called with the number
    of responses read so far."""
    fetches = list(plan.fetches)
    expected = [
        Expected(response.size, response.digest, response.records) for response in plan.responses
    ]
    with ExitStack() as stack:
        ours, theirs = _connected(options.consumers + options.slow, stack)
        sender = stack.enter_context(
            Child(f"{mode} sender", _send, ours, mode, list(paths), fetches, options)
        )
        readers = stack.enter_context(Child("consumers", _consume, theirs, expected, options))
        _await(sender, readers)
        for connected in (*ours, *theirs):
            connected.close()  # the children have copies
        resident = Resident(sender.process_id)
        stack.callback(resident.close)
        return _measured(mode, plan, sender, readers, resident, progress)


def _connected(
    count: int, stack: ExitStack
) -> tuple[tuple[socket.socket, ...], tuple[socket.socket, ...]]:
    """Both ends of `count` connections, closed with the stack at the latest."""
    pairs = []
    for _ in range(count):
        ours, theirs = socket.socketpair()
        stack.callback(ours.close)
        stack.callback(theirs.close)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_SIZE)
        pairs.append((ours, theirs))
    return tuple(ours for ours, _ in pairs), tuple(theirs for _, theirs in pairs)


def _await(sender: Child, readers: Child) -> None:
    """Waits until both have sent that they are ready: one message each."""
    for child in (sender, readers):
        while not messages_of([child]):
            pass


def _measured(
    mode: Mode, plan: Plan, sender: Child, readers: Child, resident: Resident, progress: Progress
) -> Run:
    timeline: list[tuple[float, int]] = []
    readers.send("begin")
    started = last_heard = now()
    while not (sender.done and readers.done):
        messages = messages_of([sender, readers], _SAMPLE_EVERY)
        moment = now()
        if not readers.done:
            timeline.append((moment - started, resident()))
        if messages:
            progress(messages[-1])
            last_heard = moment
        if moment - last_heard > _STALLED_AFTER:
            raise SimulationError(f"nothing has come from the {mode} sender for ten minutes")
    sent: Sent = sender.result
    line = [(seconds, max(size - sent.idle, 0)) for seconds, size in timeline if size]
    return Run(plan, sent, readers.result, line)


# --- in the children


def _plan(
    parent: Parent, mode: Mode, paths: list[Path], options: Options, endings: dict[int, Ending]
) -> Plan:
    return make_plan(mode, paths, options, endings, _throttled(parent))


def _send(
    parent: Parent,
    sockets: Sequence[socket.socket],
    mode: Mode,
    paths: list[Path],
    fetches: list[Fetch],
    options: Options,
) -> Sent:
    with Responses(mode, paths, options) as responses:
        driver = Driver(sockets, fetches, responses)
        memory, cpu = Memory(), Cpu()
        parent.send("ready")
        tally = driver.run()
        return Sent(NAME, tally, memory.idle, memory.peak(), cpu.seconds())


def _consume(
    parent: Parent, sockets: Sequence[socket.socket], expected: list[Expected], options: Options
) -> Reading:
    consumers = Consumers(sockets, expected, options.slow, options.rate, _throttled(parent))
    parent.send("ready")
    parent.receive()
    return consumers.run()


def _throttled(parent: Parent) -> Progress:
    """Reports progress to the parent, but not every step."""
    sent_at = now()

    def report(done: int) -> None:
        nonlocal sent_at
        if now() - sent_at > _REPORT_EVERY:
            sent_at = now()
            parent.send(done)

    return report
