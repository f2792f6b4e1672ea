"""The common interface of servers: they run from `start` to `stop`, and work in a `with`."""

from abc import ABC, abstractmethod
from typing import Self


class Startable(ABC):
    """Starts when a `with` is entered, and stops when it ends."""

    @abstractmethod
    def start(self) -> None:
        """Returns when the server accepts requests."""

    @abstractmethod
    def stop(self) -> None:
        """Returns when the server has ended."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
