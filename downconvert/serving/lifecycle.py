"""The common interface of servers: `start`, `stop`, and use in a `with` statement."""

from abc import ABC, abstractmethod
from typing import Self


class Startable(ABC):
    """Starts at the beginning of a `with` statement, and stops at its end."""

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
