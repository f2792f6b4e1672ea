"""Child processes. They are spawned and not forked, so they share no memory with the parent. They
end with the parent at the latest.

A child runs one function. Its first argument is the pipe to the parent. The function's messages,
and then its result or its error, return through that pipe."""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Final, Self

from downconvert.cli.failure import CommandError
from records import RecordsError

_SPAWN: Final = multiprocessing.get_context("spawn")  # a fork would begin with the parent's memory
_END_WAIT: Final = 5.0  # seconds, for a child that was asked to end
_RESULT: Final = "result"
_FAILED: Final = "failed"
_MESSAGE: Final = "message"


class SimulationError(CommandError):
    """A simulation cannot be run. The message is one line for the user."""


class Parent:
    """A child's end of the pipe to its parent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, what: object) -> None:
        self._connection.send((_MESSAGE, what))

    def receive(self) -> Any:
        return self._connection.recv()

    def has_sent(self) -> bool:
        """Whether `receive` would return at once."""
        return self._connection.poll()


class Child:
    """A process that runs `work(line, *arguments)`. As a context manager it ends with the block."""

    def __init__(self, name: str, work: Callable[..., object], *arguments: object) -> None:
        self._name = name
        self._connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=_run, args=(theirs, work, arguments), name=name, daemon=True
        )
        # Ctrl-C goes to every process of the terminal, and only the parent must react. Children
        # inherit the signal mask. A signal in between reaches the parent afterwards.
        resource_tracker.ensure_running()  # starting it later would unblock the signal
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self.done = False
        self.result: Any = None

    @property
    def process_id(self) -> int:
        return self._process.pid or 0

    def send(self, what: object) -> None:
        self._connection.send(what)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.is_alive() and not self.done:
            self._process.terminate()
        self._process.join(_END_WAIT)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._connection.close()

    def _receive(self) -> list[Any]:
        """The messages since the last call. SimulationError: the child failed, or ended."""
        messages: list[Any] = []
        try:
            while not self.done and self._connection.poll():
                kind, what = self._connection.recv()
                if kind == _FAILED:
                    raise SimulationError(what)
                if kind == _MESSAGE:
                    messages.append(what)
                else:
                    self.result, self.done = what, True
        except (EOFError, OSError):
            raise SimulationError(self._ending()) from None
        return messages

    def _ending(self) -> str:
        self._process.join(_END_WAIT)
        code = self._process.exitcode or 0
        if code == -signal.SIGKILL:
            return f"the {self._name} process was killed: most likely the machine ran out of memory"
        return f"the {self._name} process ended without a result (exit code {code})"


def messages_of(children: Sequence[Child], seconds: float | None = None) -> list[Any]:
    """Waits until a child has sent something, at most `seconds`. Returns the messages.

    Results are in `Child.result` when `done` is set. SimulationError: a child failed."""
    waiting = {child._connection: child for child in children if not child.done}
    ready = wait(list(waiting), seconds)
    return [what for connection in ready for what in waiting[connection]._receive()]  # type: ignore[index]


def _run(
    connection: Connection, work: Callable[..., object], arguments: tuple[object, ...]
) -> None:
    """In the child: runs the function, and sends its result or its error."""
    try:
        try:
            message = (_RESULT, work(Parent(connection), *arguments))
        except (RecordsError, SimulationError, ValueError, OSError) as error:
            message = (_FAILED, str(error))
        except MemoryError:
            message = (_FAILED, "a child process ran out of memory")
        connection.send(message)
    except (BrokenPipeError, EOFError):
        pass  # the parent is gone, so nobody reads the response
