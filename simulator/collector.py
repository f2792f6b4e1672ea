"""A channel that accepts everything and keeps it."""


class Collector:
    """`data` has all written bytes."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: memoryview) -> int:
        self.data += data
        return len(data)
