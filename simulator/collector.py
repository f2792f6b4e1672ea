"""A channel that takes everything and keeps it."""


class Collector:
    """`data` is what has been written to it."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: memoryview) -> int:
        self.data += data
        return len(data)
