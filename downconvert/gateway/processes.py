"""Several processes behind one port, for more clients than one core can serve.

The parent serves no clients. It opens each port once and hands copies to its children, so that the
kernel distributes clients over them. It adds up their figures, sends them new settings, and
restarts a child that died. A child ends when its parent has died.

Limits of connections and memory apply to the whole gateway, and each child gets an equal share. All
children share the state of clients' rates, of their new connections, and of failed logins
(shared_ledger.py)."""

import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import wait
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Final

from downconvert.access.rights import Access, ConfigError
from downconvert.serving.lifecycle import Startable
from records.logged import log_of, with_log_fields

from . import child_process
from .changes import applicable
from .child_process import FIRST, REQUEST, RESPONSE, SIGNALS, Configure
from .config import GatewayConfig
from .figures import Figures, Process, total
from .network.listeners import Listeners
from .server import Gateway
from .session.shared import Ledgers
from .shared_ledger import SharedLedger
from .topology import BOOTSTRAP, Address

LOG: Final = log_of(__name__)
# A process with threads must not fork: a lock that another thread holds would stay locked in the
# child.
CONTEXT: Final = get_context("spawn")
RESPONSE_SECONDS: Final = 10.0  # for a child's response
FIGURES_SECONDS: Final = 5.0  # for figures: Prometheus waits ten seconds by default
START_SECONDS: Final = 120.0  # for a child to serve: it starts an interpreter
RESTART_SECONDS: Final = 1.0  # until a child that died is started again
READY: Final = "ready"  # the first request to a child at the start; restarted ones get none
FIGURES: Final = "figures"
UNANSWERED_MAX: Final = 16  # requests: more could fill a silent child's pipe and block the parent


def _as_it_is() -> Callable[[], object]:
    """Leaves logging unchanged."""
    return bool


class Processes(Startable):
    """A running gateway of several processes. `configure` sets up logging in each.

    ConfigError, from the first child: a setting is invalid."""

    def __init__(self, config: GatewayConfig, count: int, configure: Configure = _as_it_is) -> None:
        self.config = config
        self._count = count
        self._configure = configure
        self._listeners = Listeners(config.listen.host, shares_ports=config.shares_ports)
        self._ledgers = Ledgers(SharedLedger(), SharedLedger(), SharedLedger())
        self.children: list[_Child] = []
        self._past = Figures(processes=0)  # counts of children that died
        self._holders: dict[int, set[int]] = {}  # by node: the children that listen for it
        self._lock = Lock()
        self._changing = Lock()  # held while settings change or a child is started with them
        self._stopping = Event()
        self._watcher = Thread(target=with_log_fields(self._watch), name="processes", daemon=True)
        self.address: Address

    def start(self) -> None:
        """Returns when clients can connect. OSError: a port cannot be bound."""
        Gateway(self.config).pool.close()  # finds errors before processes start
        try:
            bootstrap = self._listeners.copies(BOOTSTRAP, self.config.listen.port)
            self.address = Address(*bootstrap[0].getsockname()[:2])
            for one in bootstrap:
                one.close()
            for number in range(self._count):
                self.children.append(self._started(number))
            for child in self.children:
                child.ask(READY, seconds=START_SECONDS)
        except BaseException:
            self.stop()
            raise
        self._watcher.start()

    def stop(self) -> None:
        """Stops. Requests under way may finish within the limits' time."""
        self._stopping.set()
        if self._watcher.ident is not None:
            self._watcher.join()  # before the children stop: it may just have started one
        for child in self.children:
            child.send("stop")
        for child in self.children:
            child.join(self.config.limits.drain_timeout + RESPONSE_SECONDS)
        self._listeners.close_all()

    def reload(self, config: GatewayConfig) -> None:
        """Applies other settings to all processes. A process that has died gets them when it is
        started again, and a silent one when it reads its requests. ConfigError: the first process
        that answered refused them. OSError: no process answered. After an error nothing has
        changed."""
        share, is_applied = _share(config, self._count), False
        with self._changing:
            for child in self.children:
                try:
                    child.ask("reload", share)
                except (OSError, ConfigError) as error:
                    is_last = child is self.children[-1]
                    if not is_applied and (is_last or isinstance(error, ConfigError)):
                        raise
                    pid = child.process.pid
                    LOG.warning("process %d has not accepted the settings: %s", pid, error)
                else:
                    is_applied = True
            self.config = applicable(self.config, config)

    @property
    def is_alive(self) -> bool:
        """Whether it serves. The other children serve while some are restarted."""
        return not self._stopping.is_set() and any(one.is_alive for one in self.children)

    def figures(self) -> Figures:
        """The sum of all children's figures. Counts that only grow include dead children. For a
        silent child its last response counts."""
        with self._lock:
            children, past = list(self.children), self._past
        with ThreadPoolExecutor(max(len(children), 1), "figures") as pool:
            every = list(pool.map(_Child.figures, children))
        whole = total([past, *every])
        missing = self._count - sum(one.processes for one in every)
        if missing:
            whole.unready.append(f"{missing} of {self._count} processes do not answer")
        return whole

    def _started(self, number: int) -> "_Child":
        child = _Child(_share(self.config, self._count), number, self._configure, self._ledgers)
        Thread(target=self._hand_out, args=(child,), name="listeners", daemon=True).start()
        return child

    def _watch(self) -> None:
        """Restarts children that died."""
        while not self._stopping.is_set():
            wait([child.process.sentinel for child in self.children], timeout=0.2)
            for child in list(self.children):
                if not child.is_alive and not self._stopping.is_set():
                    code = child.process.exitcode
                    LOG.error(
                        "process %d of the gateway died (%s): it is restarted",
                        child.process.pid,
                        code,
                    )
                    self._forget(child)
                    if self._stopping.wait(RESTART_SECONDS):
                        return
                    try:
                        self._replace(child)
                    except OSError as error:
                        LOG.error("no process can be started in its place: %s", error)

    def _replace(self, child: "_Child") -> None:
        """Starts another child in place of one that died."""
        with self._changing:
            started = self._started(child.number)
            with self._lock:
                self._past = total([self._past, child.last, Figures(0, restarted=1)])
                self.children[child.number] = started

    # --- listening sockets for children

    def _hand_out(self, child: "_Child") -> None:
        """Answers a child's requests for sockets until it ends."""
        with suppress(OSError):
            while request := child.sockets.recv(REQUEST.size, socket.MSG_WAITALL):
                if len(request) < REQUEST.size:
                    return
                is_gone, node_id, port = REQUEST.unpack(request)
                if is_gone:
                    self._release(child, node_id)
                else:
                    self._send_copies(child, node_id, port)

    def _send_copies(self, child: "_Child", node_id: int, port: int) -> None:
        try:
            with self._lock:
                copies = self._listeners.copies(node_id, port)
                self._holders.setdefault(node_id, set()).add(child.number)
        except OSError as error:
            text = (error.strerror or str(error)).encode()[:255]
            child.sockets.sendall(RESPONSE.pack(error.errno or -1, len(text)) + text)
            return
        try:
            data = RESPONSE.pack(0, len(copies))
            socket.send_fds(child.sockets, [data], [one.fileno() for one in copies])
        finally:
            for one in copies:
                one.close()

    def _release(self, child: "_Child", node_id: int) -> None:
        """Closes the parent's socket after the last child has closed its own. Until then no other
        program can take the port."""
        with self._lock:
            holders = self._holders.get(node_id, set())
            holders.discard(child.number)
            if not holders and node_id != BOOTSTRAP:
                self._holders.pop(node_id, None)
                self._listeners.close(node_id)

    def _forget(self, child: "_Child") -> None:
        child.close()
        for node_id in list(self._holders):
            self._release(child, node_id)


class _Child:
    """One of the processes, as the parent sees it."""

    def __init__(
        self, config: GatewayConfig, number: int, configure: Configure, ledgers: Ledgers
    ) -> None:
        self.number = number
        self.last = Figures(processes=0)  # the counts in its last response
        self._questions = count(FIRST + 1)
        self._unanswered = 0
        self._control, control = CONTEXT.Pipe()
        self.sockets, sockets = socket.socketpair()
        with _signals_blocked():
            self.process = CONTEXT.Process(
                target=child_process.serve,
                args=(control, sockets, config, configure, ledgers),
                name=f"gateway-{number}",
            )
            self.process.start()
        control.close()
        sockets.close()
        self._lock = Lock()

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive()

    def ask(self, what: str, value: object = None, seconds: float = RESPONSE_SECONDS) -> Any:
        """Asks the child. Returns its response, or raises the child's error. OSError: it has died,
        or does not answer."""
        with self._lock:
            return self._ask(what, value, seconds)

    def figures(self) -> Figures:
        """Its counts. If it does not answer, the lasting counts of its last response."""
        with self._lock:
            try:
                figures: Figures = self._ask(FIGURES, None, FIGURES_SECONDS)
            except (OSError, ConfigError):  # a restarted child that cannot serve
                return self.last
            self.last = figures.lasting()
        process = Process(figures.connections, figures.resident_bytes)
        return replace(figures, each={self.number: process})

    def _ask(self, what: str, value: object, seconds: float) -> Any:
        deadline = monotonic() + seconds
        number = FIRST if what == READY else next(self._questions)
        try:
            while what == FIGURES and self._unanswered >= UNANSWERED_MAX:
                self._next_response(deadline)
            self._control.send((number, what, value))
            self._unanswered += 1
            answered = None
            while answered != number:  # drops late responses to earlier questions
                answered, response = self._next_response(deadline)
        except (EOFError, ConnectionError) as error:
            raise OSError(f"process {self.process.pid} of the gateway has died") from error
        if isinstance(response, Exception):
            raise response
        return response

    def _next_response(self, deadline: float) -> tuple[int, Any]:
        """A response, with the number of its question."""
        if not self._control.poll(max(deadline - monotonic(), 0.0)):
            raise TimeoutError(f"process {self.process.pid} of the gateway is silent")
        self._unanswered -= 1
        answered: tuple[int, Any] = self._control.recv()
        return answered

    def send(self, what: str) -> None:
        with self._lock, suppress(OSError):
            self._control.send((next(self._questions), what, None))

    def join(self, seconds: float) -> None:
        self.process.join(seconds)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.close()

    def close(self) -> None:
        with self._lock:
            self._control.close()
        self.sockets.close()


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """A process that is started in this context begins with the signals blocked. This process gets
    them afterwards."""
    former = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _share(config: GatewayConfig, count: int) -> GatewayConfig:
    """The settings of one of `count` processes."""
    limits = config.limits
    shares = {
        name: -(-getattr(limits, name) // count)
        for name in ("connections", "connections_per_address", "memory", "requests_memory")
    }
    identities = config.identities
    rules = tuple(replace(one, access=_part(one.access, count)) for one in identities.rules)
    return replace(
        config,
        limits=replace(limits, **shares),
        access=_part(config.access, count),
        identities=replace(identities, rules=rules),
    )


def _part(access: Access, count: int) -> Access:
    """The rights of clients at one of `count` processes."""
    if access.connections is None:
        return access
    return replace(access, connections=-(-access.connections // count))
