"""The state shared by all threads of a server."""

from collections.abc import Callable
from dataclasses import dataclass

from downconvert.broker.broker import Broker
from downconvert.serving.limits import Limits
from downconvert.serving.request_memory import RequestMemory
from downconvert.serving.unread import UnreadResponses

from .clock import Clock


@dataclass(frozen=True, slots=True)
class Serving:
    """The state shared by all threads of a server. memory: of the requests of identified clients.
    unread: the responses that wait for their clients. wake_timekeeper: makes the timekeeping thread
    check for passed deadlines at the given time, in seconds of the clock."""

    broker: Broker
    limits: Limits
    memory: RequestMemory
    unread: UnreadResponses
    clock: Clock
    wake_timekeeper: Callable[[float], None]
