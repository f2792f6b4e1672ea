"""A client's request, of which perhaps only the beginning has arrived.

That is enough to forward most requests. Others are read whole, into memory, up to a limit."""

from asyncio import timeout
from struct import Struct
from typing import Final

from downconvert.broker.errors import BadRequestError

from .config import Limits
from .streams import Stream

LENGTH: Final = Struct(">i")
PREFIX_SIZE: Final = 16 * 1024  # bytes of a request that are looked at before it is passed on


class ClientRequest:
    """`prefix`: its beginning, or all of it after `whole`."""

    def __init__(self, client: Stream, size: int, limits: Limits) -> None:
        self._client = client
        self._limits = limits
        self.size = size
        self.prefix = memoryview(bytes(client.available[: min(size, PREFIX_SIZE)]))
        client.consume(len(self.prefix))
        self._left = size - len(self.prefix)

    async def whole(self) -> memoryview:
        """All of it, in memory. BadRequestError: it is too large for that."""
        if self.size > self._limits.translated_size:
            raise BadRequestError(
                f"a request of {self.size} bytes is too large to be translated: the limit is "
                f"{self._limits.translated_size}"
            )
        whole = bytearray(self.prefix)
        async with timeout(self._limits.receive_timeout):
            while self._left:
                await self._client.ensure(1)
                piece = self._client.available[: self._left]
                whole += piece
                self._left -= len(piece)
                self._client.consume(len(piece))
        self.prefix = memoryview(bytes(whole))
        return self.prefix

    async def pass_to(self, other: Stream) -> None:
        """Passes it on as it is."""
        other.send(LENGTH.pack(self.size) + bytes(self.prefix))
        if self._left or not other.takes():
            async with timeout(self._limits.receive_timeout):
                await self._client.copy_to(other, self._left)
                await other.drain()
            self._left = 0
