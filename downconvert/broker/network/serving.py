"""What all threads of a server share."""

from collections.abc import Callable
from dataclasses import dataclass

from downconvert.broker.broker import Broker
from downconvert.serving.limits import Limits

from .clock import Clock


@dataclass(frozen=True, slots=True)
class Serving:
    """What all threads of a server share. wake_timekeeper: makes the thread that keeps the time
    look for what is late, at the given time, in seconds of the clock."""

    broker: Broker
    limits: Limits
    clock: Clock
    wake_timekeeper: Callable[[float], None]
