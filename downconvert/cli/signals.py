"""The signals that a server's command obeys: SIGINT and SIGTERM end it, SIGHUP has it read its
settings again.

Python runs a handler between any two steps of the main thread, which may hold a lock or be handling
an earlier signal. So a handler only notes its signal."""

import signal
from contextlib import AbstractContextManager, ExitStack, suppress
from queue import Empty, SimpleQueue
from typing import Final, Self

AGAIN: Final = signal.SIGHUP
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, AGAIN)


class Signals(AbstractContextManager["Signals"]):
    """Notes signals while its context is active. Only the main thread may use it."""

    def __init__(self) -> None:
        self._noted = SimpleQueue[int]()  # a handler may interrupt `get` and `put`
        self._former = ExitStack()

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._former.callback(signal.signal, number, signal.getsignal(number))
            signal.signal(number, lambda number, _: self._noted.put(number))
        return self

    def __exit__(self, *_: object) -> None:
        self._former.close()

    def wait(self, seconds: float | None = None) -> set[int]:
        """Waits for a signal, and returns all signals since the last call. `seconds` None: no
        time-out."""
        found = set[int]()
        with suppress(Empty):
            found.add(self._noted.get(timeout=seconds))
            while True:
                found.add(self._noted.get_nowait())
        return found
