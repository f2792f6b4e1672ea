"""What servers have in common: they run from `start` to `stop`, and are left in a `with`."""

from abc import ABC, abstractmethod
from typing import Self


class Startable(ABC):
    """Starts when a `with` is entered, and stops when it is left."""

    @abstractmethod
    def start(self) -> None:
        """Returns when it serves."""

    @abstractmethod
    def stop(self) -> None:
        """Returns when it has ended."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
