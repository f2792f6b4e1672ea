"""The connections of one thread: their selector events, and their ends.

An error in a step of one connection closes that connection and no other.

Not here: the steps (processor.py), the state of a connection (connection.py)."""

import logging
from collections.abc import Callable
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector
from typing import Final

from downconvert.broker.endings import End
from downconvert.broker.operating.request_log import log_end
from downconvert.protocol.errors import BadRequestError, ExpiredSessionError, FailedLoginError
from downconvert.serving.limits import Limits
from downconvert.serving.places import EVICTED
from downconvert.serving.tls import HAS_GONE, WANTS_READ
from downconvert.serving.unread import UNREAD
from records import RecordsError
from records.logged import log_of

from .connection import Connection, ConnectionEndedError
from .serving import Serving

LOG: Final = log_of(__name__)
CLOSED: Final = "the client closed the connection"  # as the gateway says it
DEFECT: Final = "a defect"  # a kind of log lines
NOT_NOW: Final = (BlockingIOError, InterruptedError, WANTS_READ)


class ServedConnections:
    """The connections that a thread serves. Only that thread calls these methods."""

    def __init__(self, serving: Serving, selector: BaseSelector) -> None:
        self._broker = serving.broker
        self._clock = serving.clock
        self._unread = serving.unread
        self._selector = selector
        self._by_client: dict[int, Connection] = {}

    def __bool__(self) -> bool:
        return bool(self._by_client)

    def of(self, client_id: int) -> Connection | None:
        """The connection of a client, by the client's number. None: this thread has none."""
        return self._by_client.get(client_id)

    def add(self, connection: Connection) -> None:
        self._by_client[connection.client.id] = connection

    def watch(self, connection: Connection, *, reads: bool = True) -> None:
        """Registers the connection with the selector for the events that it waits for."""
        interest = EVENT_READ if reads and connection.send is None else 0
        interest |= EVENT_WRITE if connection.waits_to_write else 0
        if interest == connection.interest:
            return
        if not interest:
            self._selector.unregister(connection.channel)
        elif connection.interest:
            self._selector.modify(connection.channel, interest, connection)
        else:
            self._selector.register(connection.channel, interest, connection)
        connection.interest = interest

    def guarded(self, connection: Connection, step: Callable[[Connection], None]) -> None:
        """Runs a step of one connection. Any error closes only that connection.

        Does nothing for a connection that was closed or handed over since the turn began, because
        the selector's events are from its beginning."""
        if self._by_client.get(connection.client.id) is not connection:
            return
        try:
            step(connection)
        except NOT_NOW:
            pass
        except (ConnectionEndedError, ConnectionError, TimeoutError, *HAS_GONE):
            refusal = connection.client.refusal
            self.close(connection, End.LOGIN if refusal else End.CLIENT, refusal or CLOSED)
        except FailedLoginError as error:
            self.close(connection, End.LOGIN, str(error))
        except ExpiredSessionError as error:
            self.close(connection, End.EXPIRED, str(error))
        except (BadRequestError, OSError) as error:  # TLS errors are OSErrors
            self.close(connection, End.REQUEST, str(error))
        except RecordsError as error:
            self.close(connection, End.RESPONSE, f"its response cannot be finished: {error}")
        except Exception:
            message, who = "a defect: %s is disconnected", connection.client.address
            now = self._clock()
            self._broker.lines.write(LOG, now, logging.ERROR, DEFECT, message, who, exc_info=True)
            self.close(connection, End.DEFECT, "a defect")

    def leave(self, connection: Connection) -> None:
        """Removes a connection that is closed, or that another thread serves from now on."""
        del self._by_client[connection.client.id]
        connection.waits_to_write = False
        if connection.interest:
            self._selector.unregister(connection.channel)
            connection.interest = 0

    def close(self, connection: Connection, end: End, why: str) -> None:
        """Ends a connection and its exchange, and releases their resources."""
        now = self._clock()
        lines, seconds = self._broker.lines, now - connection.started
        log_end(lines, connection.client, end, why, seconds, now)
        self._broker.metrics.ended(end)
        exchange, connection.exchange = connection.exchange, None
        with suppress(OSError):  # responses that the system delays: a reset would discard them
            connection.flush()
        connection.send, connection.frame, connection.waits_for_more = None, None, False
        try:
            self.leave(connection)
            if exchange is not None:
                self._broker.finished(exchange, now)
        finally:  # its memory and its place are released in any case
            connection.incoming.release()
            self._unread.release(connection.place)
            connection.channel.close()
            connection.place.release()

    def evict(self, connection: Connection) -> None:
        """Closes a connection that must give its place to another, unless it has logged in
        meanwhile."""
        if self._by_client.get(connection.client.id) is connection:
            self.close(connection, End.REFUSED, EVICTED)

    def end_unread(self, connection: Connection) -> None:
        """Closes a connection whose response waits for its client, and is in others' way."""
        self.close(connection, End.TIMEOUT, UNREAD)

    def close_all(self) -> None:
        """Ends all connections when the server stops."""
        for connection in list(self._by_client.values()):
            self.close(connection, End.STOPPED, "the server stops, and it takes too long")

    def close_unused(self) -> None:
        """Ends connections without a request under way."""
        for connection in list(self._by_client.values()):
            if connection.exchange is None:
                self.close(connection, End.STOPPED, "the server stops")

    def close_late(self, now: float, limits: Limits) -> None:
        """Ends connections that have taken too long. `now`: seconds of the server's clock."""
        for connection in list(self._by_client.values()):
            waits = connection.exchange is not None and connection.send is None
            # If the next request has begun to arrive, it hides the end of the connection. So the
            # time of such a wait is limited.
            waits = (waits and connection.interest != 0) or connection.is_muted
            if (
                connection.request_started is not None
                and now - connection.request_started > limits.request
            ):
                why = f"no whole request within {limits.request:g} s"
                self.close(connection, End.TIMEOUT, why)
            elif not waits and now - connection.last_activity > limits.idle:
                self.close(connection, End.TIMEOUT, f"nothing for {limits.idle:g} s")
