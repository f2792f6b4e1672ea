"""A simulation of the whole path, from a topic on disk to clients over TCP: one run a mode.

The broker has a process of its own, and so have the old clients and those of today. The parent
samples the broker's memory from outside, so that it is seen also in the middle of a conversion.

Not here: the steps (load_topic.py, load_plan.py, load_server.py, load_clients.py), what the
numbers say (load_results.py)."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from simulator.children import Child, Line, SimulationError, listen
from simulator.fetch.options import Mode
from simulator.measure import Resident, now

from .clients import Seat, listen_to
from .options import Group, LoadOptions
from .phases import Shares, shares_of
from .plan import make_walks, shares, used_shares
from .results import LoadResult, LoadRun
from .server import serve
from .steps import Walks
from .topic import made_size, make_topic

_SAMPLE_EVERY: Final = 0.005  # seconds
_STALLED_AFTER: Final = 600.0  # seconds without an end: a defect, not a slow machine
_SETTLE: Final = 0.2  # seconds from the last connection until its memory is looked at

Step = Callable[[str, int, int], None]  # what is being done, how far it is, of how much


def simulate_load(
    name: str, options: LoadOptions, step: Step = lambda _what, _done, _total: None
) -> LoadResult:
    """Makes the topic, plans, and runs every mode. SimulationError, in one line, where something
    is not as it must be."""
    with TemporaryDirectory(prefix="downconvert-") as path:
        directory = Path(path)
        size = made_size(options.workload, options.partitions)
        make_topic(
            directory,
            options.workload,
            options.partitions,
            lambda done: step("generate", done, size),
        )
        walks, of_phases = _planned(directory, options, step)
        runs: dict[Mode, LoadRun] = {}
        alone: LoadRun | None = None
        total = len(options.modes) + options.compares_ages
        if options.compares_ages:
            step("today's clients alone", 0, total)
            todays = tuple(group for group in options.clients if not group.is_old)
            alone = _run(directory, "lazy", options, todays, walks)
        for mode in options.modes:
            step(mode, len(runs) + options.compares_ages, total)
            runs[mode] = _run(directory, mode, options, options.clients, walks)
        planned = sum(len(walk) for walk in walks.values())
        return LoadResult(name, options, runs, alone, of_phases, planned)


def _planned(directory: Path, options: LoadOptions, step: Step) -> tuple[Walks, Shares]:
    total = sum(used_shares(options).values())
    with Child("planning", _plan, directory, options) as child:
        while not child.done:
            for done in listen([child]):
                step("plan", done, total)
        walks, of_phases = child.result
        return walks, of_phases


def _run(
    directory: Path, mode: Mode, options: LoadOptions, groups: Sequence[Group], walks: Walks
) -> LoadRun:
    """Serves and asks until all kinds of clients have been at it for long enough."""
    with ExitStack() as stack:
        server = stack.enter_context(Child(f"{mode} broker", serve, directory, mode, options))
        address, idle = _first_word(server)
        clients = []
        for is_old in (True, False):
            seats = _seats(mode, options, groups, walks, is_old=is_old)
            if seats:
                name = "old clients" if is_old else "today's clients"
                child = Child(name, listen_to, address, seats, options.seconds)
                clients.append(stack.enter_context(child))
        for child in clients:
            _first_word(child)
        resident = Resident(server.process_id)
        stack.callback(resident.close)
        listen([server], _SETTLE)
        connected = max(0, resident() - idle)
        timeline = _measured(server, clients, resident)
        above = [(seconds, max(0, size - idle)) for seconds, size in timeline if size]
        listenings = [child.result for child in clients]
        return LoadRun(mode, tuple(groups), server.result, listenings, connected, above)


def _measured(
    server: Child, clients: Sequence[Child], resident: Resident
) -> list[tuple[float, int]]:
    """Runs the clients until they have all had enough; the broker's memory meanwhile."""
    timeline: list[tuple[float, int]] = []
    for child in clients:
        child.say("begin")
    started = now()
    enough = 0
    while enough < len(clients):
        enough += len(listen([server, *clients], _SAMPLE_EVERY))
        timeline.append((now() - started, resident()))
        if now() - started > _STALLED_AFTER:
            raise SimulationError("some clients have not been answered for ten minutes")
    for child in clients:
        child.say("end")
    while not all(child.done for child in clients):
        listen(clients)
    server.say("end")
    while not server.done:
        listen([server])
    return timeline


def _first_word(child: Child) -> Any:
    while True:
        for word in listen([child]):
            return word


def _seats(
    mode: Mode, options: LoadOptions, groups: Sequence[Group], walks: Walks, *, is_old: bool
) -> list[Seat]:
    seats = []
    count = len(shares(options))
    slow = dict(zip(options.clients, options.slow.of(options.clients), strict=True))
    for group in groups:
        if group.is_old != is_old:
            continue
        pause = 0.0 if is_old else options.pause
        for number in range(group.count):
            walk = walks[group.version_in(mode), number % count]
            rate = options.rate if number < slow[group] else 0
            seats.append(Seat(group.kind, walk, rate, pause))
    return seats


# --- in the child


def _plan(line: Line, directory: Path, options: LoadOptions) -> tuple[Walks, Shares]:
    return make_walks(directory, options, line.tell), shares_of(directory, options)
