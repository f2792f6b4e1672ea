"""A simulation of the whole path, from a topic on disk to clients over TCP: warms up, then measures
all modes in turns.

The broker has a process of its own, and so have the old and the current clients. The parent samples
the broker's memory from outside, so that it is known even during a conversion."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from simulator.children import Child, Parent, SimulationError, messages_of
from simulator.measure import Resident, now
from simulator.modes import Mode
from simulator.rounds import Rounds, turns

from .clients import ClientSpec, run_clients
from .options import Group, LoadOptions
from .phases import Shares, shares_of
from .plan import make_scans, shares, used_shares
from .results import ALONE, LoadResult, LoadRun
from .server import serve
from .steps import Scans
from .topic import made_size, make_topic

_SAMPLE_EVERY: Final = 0.005  # seconds
_STALLED_AFTER: Final = 600.0  # seconds: nothing is that slow, so it is a defect
_WARM_UP_STEPS: Final = 1
_SETTLE: Final = 0.2  # seconds from the last connection until the broker's memory is measured

Step = Callable[[str, int, int], None]  # the current activity, its progress, and the total


def simulate_load(
    name: str, options: LoadOptions, step: Step = lambda _what, _done, _total: None
) -> LoadResult:
    """Creates the topic, plans, and measures every mode. SimulationError, in one line: it cannot be
    run, or a response is wrong already while planning."""
    with TemporaryDirectory(prefix="downconvert-") as path:
        directory = Path(path)
        size = made_size(options.workload, options.partitions)
        make_topic(
            directory,
            options.workload,
            options.partitions,
            lambda done: step("generate", done, size),
        )
        scans, of_phases = _planned(directory, options, step)
        if options.rounds > 1:
            first = {way: scan[:_WARM_UP_STEPS] for way, scan in scans.items()}
            for mode in options.modes:
                step("warm-up", 0, 1)
                warm_up = options.for_warm_up()
                _run(directory, mode, warm_up, warm_up.clients, first)
        named = _rounds(directory, options, scans, step)
        planned = sum(len(scan) for scan in scans.values())
        alone = named.pop(ALONE, None)
        modes = {mode: named[mode] for mode in options.modes}
        return LoadResult(name, options, modes, alone, of_phases, planned)


def _rounds(
    directory: Path, options: LoadOptions, scans: Scans, step: Step
) -> dict[str, Rounds[LoadRun]]:
    """The rounds by mode, and those of current clients alone, if there are old ones beside them."""
    names: list[str] = [*([ALONE] if options.compares_ages else []), *options.modes]
    rounds = {name: Rounds[LoadRun]() for name in names}
    of_one = replace(options, seconds=options.seconds / options.rounds)
    todays = tuple(group for group in options.clients if not group.is_old)
    for number in range(options.rounds):
        for done, name in enumerate(turns(names, number)):
            what = "today's clients alone" if name == ALONE else name
            step(f"{what}, round {number + 1} of {options.rounds}", done, len(names))
            if name == ALONE:
                run = _run(directory, "lazy", of_one, todays, scans)
            else:
                run = _run(directory, cast(Mode, name), of_one, options.clients, scans)
            rounds[name].each.append(run)
    return rounds


def _planned(directory: Path, options: LoadOptions, step: Step) -> tuple[Scans, Shares]:
    total = sum(used_shares(options).values())
    with Child("planning", _plan, directory, options) as child:
        while not child.done:
            for done in messages_of([child]):
                step("plan", done, total)
        scans, of_phases = child.result
        return scans, of_phases


def _run(
    directory: Path, mode: Mode, options: LoadOptions, groups: Sequence[Group], scans: Scans
) -> LoadRun:
    """One round: a broker and its clients, until all processes of clients have had their time."""
    with ExitStack() as stack:
        server = stack.enter_context(Child(f"{mode} broker", serve, directory, mode, options))
        address, idle = _first_message(server)
        clients = []
        for is_old in (True, False):
            specs = _specs(mode, options, groups, scans, is_old=is_old)
            if specs:
                name = "old clients" if is_old else "today's clients"
                child = Child(name, run_clients, address, specs, options.seconds)
                clients.append(stack.enter_context(child))
        for child in clients:
            _first_message(child)
        resident = Resident(server.process_id)
        stack.callback(resident.close)
        messages_of([server], _SETTLE)
        connected = max(0, resident() - idle)
        timeline = _measured(server, clients, resident)
        above = [(seconds, max(0, size - idle)) for seconds, size in timeline if size]
        stats = [child.result for child in clients]
        return LoadRun(mode, tuple(groups), server.result, stats, connected, above)


def _measured(
    server: Child, clients: Sequence[Child], resident: Resident
) -> list[tuple[float, int]]:
    """Lets the clients run for their time. Returns the broker's memory over time."""
    timeline: list[tuple[float, int]] = []
    for child in clients:
        child.send("begin")
    started = now()
    enough = 0
    while enough < len(clients):
        enough += len(messages_of([server, *clients], _SAMPLE_EVERY))
        timeline.append((now() - started, resident()))
        if now() - started > _STALLED_AFTER:
            raise SimulationError("some clients have not been answered for ten minutes")
    for child in clients:
        child.send("end")
    while not all(child.done for child in clients):
        messages_of(clients)
    server.send("end")
    while not server.done:
        messages_of([server])
    return timeline


def _first_message(child: Child) -> Any:
    while True:
        for message in messages_of([child]):
            return message


def _specs(
    mode: Mode, options: LoadOptions, groups: Sequence[Group], scans: Scans, *, is_old: bool
) -> list[ClientSpec]:
    specs = []
    count = len(shares(options))
    slow = dict(zip(options.clients, options.slow.of(options.clients), strict=True))
    for group in groups:
        if group.is_old != is_old:
            continue
        pause = 0.0 if is_old else options.pause
        for number in range(group.count):
            scan = scans[group.version_in(mode), number % count]
            rate = options.rate if number < slow[group] else 0
            specs.append(ClientSpec(group.kind, scan, rate, pause))
    return specs


# --- in the child


def _plan(parent: Parent, directory: Path, options: LoadOptions) -> tuple[Scans, Shares]:
    return make_scans(directory, options, parent.send), shares_of(directory, options)
