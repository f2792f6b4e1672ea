"""A gateway in one process: its settings, its limits, its view of the cluster, its counts.

Not here: the event loop (loop.py), several processes behind one port (processes.py)."""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from os import getpid
from typing import Final, Protocol

from downconvert.access.admissions import Admissions
from downconvert.access.failed_logins import FailedLogins
from downconvert.access.quotas import Quotas
from downconvert.access.rights import ConfigError
from downconvert.access.tokens import keep
from downconvert.serving.lifecycle import Startable
from downconvert.serving.line_budget import LineBudget
from downconvert.serving.places import NoPlaceError, Place, Places
from downconvert.serving.process_figures import cpu_seconds, free_bytes, resident_bytes
from downconvert.serving.request_memory import LOGIN_PART, RequestMemory
from downconvert.serving.unread import UnreadResponses
from records.budget import MemoryBudget
from records.logged import log_of

from .audit import Audit
from .certificates import Certificates
from .changes import applicable
from .config import GatewayConfig
from .figures import Counters, Figures
from .network.connection import Connection
from .network.conversion_pool import ConversionPool
from .network.listeners import Listeners, ListensFor
from .network.loop import ServingLoop
from .session.census import ClientCensus
from .session.last_old import LastOld
from .session.shared import Ledgers, Shared
from .topology import Address, Topology

LOG: Final = log_of(__name__)


class Running(AbstractContextManager[object], Protocol):
    """A gateway, of one process or of several. `config`: the settings that apply."""

    config: GatewayConfig

    @property
    def address(self) -> Address:
        """The bootstrap address for clients."""

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""

    def figures(self) -> Figures:
        """Its counts."""

    def reload(self, config: GatewayConfig) -> None:
        """Applies these settings to later connections. ConfigError: nothing has changed."""


class Gateway(Startable):
    """A running gateway. ConfigError: a certificate is invalid, or a directory is missing.

    `config` may be replaced: it applies to later connections. Certificates and addresses of the
    cluster need `reload`. `listeners` None: the gateway opens its ports itself. `ledgers` None: it
    makes its own. `clock`: seconds, as in its event loop."""

    def __init__(
        self,
        config: GatewayConfig,
        listeners: ListensFor | None = None,
        ledgers: Ledgers | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        config.check_directories()
        self.config = config
        self.census = ClientCensus()
        self.counters = Counters()
        self.last_old = LastOld()
        ledgers = ledgers or Ledgers()
        self.failed_logins = FailedLogins(ledgers.failed_logins)
        self.quotas = Quotas(ledgers.quotas)
        self.admissions = Admissions(ledgers.admissions)
        self.pool = ConversionPool()
        self.budget = MemoryBudget(config.limits.memory)
        self.requests = RequestMemory(config.limits.requests_memory)
        self.unread = UnreadResponses(config.limits.requests_memory)
        self.topology = Topology(config.bootstrap, config.ports(config.listen.port))
        self.cluster_failure: str | None = "the cluster has not answered yet"
        self.listeners = listeners or Listeners(
            config.listen.host, shares_ports=config.shares_ports
        )
        self.certificates = Certificates(config)
        self.places = Places()
        self.lines = LineBudget()
        self.audit = Audit(self.lines, clock)
        self._clock = clock
        self._shared = Shared(
            config,
            self.topology,
            self.census,
            self.failed_logins,
            self.quotas,
            self.admissions,
            self.last_old,
            self.audit,
            self.requests,
            RequestMemory(config.limits.requests_memory // LOGIN_PART),
            self.unread,
        )
        self._loop = ServingLoop(self)

    def start(self) -> None:
        """Returns when clients can connect. OSError: a port cannot be bound."""
        if self.config.identities.tokens is not None:
            self.config.identities.tokens.start()
        try:
            self._loop.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops. Requests under way may finish within the limits' time."""
        self._loop.ask_to_stop()
        self._loop.join()
        self.listeners.close_all()
        self.pool.close()
        if self.config.identities.tokens is not None:
            self.config.identities.tokens.stop()

    def reload(self, config: GatewayConfig) -> None:
        """Applies other settings to later connections: addresses of the cluster, certificates,
        users, lists, limits. ConfigError: they are invalid; nothing has changed.

        Settings that need a restart stay unchanged (changes.py)."""
        if (config.tls_cert is None) != (self.config.tls_cert is None):
            raise ConfigError("restart to turn TLS of the listener on or off")
        config.check_directories()
        self.certificates.read(config)
        identities = config.identities
        tokens = keep(self.config.identities.tokens, identities.tokens)
        config = replace(config, identities=replace(identities, tokens=tokens))
        self.topology.bootstrap = config.bootstrap
        self.config = applicable(self.config, config)

    @property
    def is_alive(self) -> bool:
        return self._loop.is_alive

    @property
    def connections(self) -> list[Connection]:
        """The connections that are served, after their handshakes."""
        return list(self._loop.connections)

    def unready(self) -> list[str]:
        """Reasons why clients should use another gateway. Empty: there are none."""
        reasons = [] if self.is_alive else ["it is not running"]
        if self.cluster_failure is not None:
            reasons.append(f"the cluster: {self.cluster_failure}")
        tokens = self.config.identities.tokens
        if tokens is not None and tokens.failure is not None:
            reasons.append(f"the keys of tokens: {tokens.failure}")
        unserved = dict(self.topology.unserved)  # a copy, because the event loop changes it
        return [*reasons, *(f"broker {n}: {why}" for n, why in unserved.items())]

    def figures(self) -> Figures:
        figures = Figures(
            process_id=getpid(),
            connections=len(self.places),
            brokers=len(self.topology.nodes),
            unready=self.unready(),
            clients=self.census.rows(),
            last_old=self.last_old.rows(),
            cpu_seconds=cpu_seconds(),
            resident_bytes=resident_bytes(),
            spool_free_bytes=free_bytes(self.config.spool_dir),
            certificate_until=self.certificates.valid_until,
        )
        self.counters.copy_to(figures)
        return figures

    def report_broker(self, address: Address, reason: str | None) -> None:
        """Notes that a broker has answered (None), or why it has not."""
        is_news = self.topology.set_failed(address, has_failed=reason is not None)
        if reason is not None:
            self.counters.broker_failed(str(address))
        if is_news:
            now = self._clock()
            if reason is None:
                self.lines.write(
                    LOG, now, logging.INFO, "again", "broker %s answers again", address
                )
            else:
                message = "broker %s: %s; others are tried before it"
                self.lines.write(LOG, now, logging.WARNING, "broker", message, address, reason)

    @property
    def address(self) -> Address:
        return self._loop.address

    @property
    def shared(self) -> Shared:
        """The objects that new sessions share."""
        if self._shared.config is not self.config:
            self._shared = replace(self._shared, config=self.config)
        return self._shared

    def admit(self, address: str) -> Place:
        """Gives a connection a place, to be released by the caller. NoPlaceError: it is refused."""
        if not self.config.access.admits(address):
            raise NoPlaceError("its network is not allowed")
        limits = self.config.limits
        return self.places.take(address, limits.connections, limits.connections_per_address)

    def admit_balancer(self, address: str) -> Place:
        """Gives a load balancer's connection a place until its PROXY header has been read."""
        limit = self.config.limits.connections
        return self.places.take(address, limit, limit)
