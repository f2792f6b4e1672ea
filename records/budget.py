"""A number of bytes that all clients together may hold."""

from threading import Lock


class MemoryBudget:
    """A budget of `size` bytes; `left` bytes are free. Thread-safe."""

    __slots__ = ("_lock", "left", "size")

    def __init__(self, size: int) -> None:
        self._lock = Lock()
        self.size = self.left = size

    @property
    def held(self) -> int:
        return self.size - self.left

    def take(self, size: int) -> bool:
        """Takes `size` bytes until they are released. False: fewer are left."""
        with self._lock:
            if size > self.left:
                return False
            self.left -= size
            return True

    def release(self, size: int) -> None:
        with self._lock:
            self.left += size
