"""A client's request, perhaps only its beginning so far.

Most requests are forwarded after reading only the beginning. The others are read whole into memory,
with a limit for each and a limit for all."""

from asyncio import get_running_loop, sleep, timeout
from struct import Struct
from typing import Final

from downconvert.gateway.config import Limits
from downconvert.gateway.network.sockets.ended import ConnectionEndedError
from downconvert.gateway.network.sockets.splicing import forward
from downconvert.gateway.network.sockets.streams import CLIENT, Stream
from downconvert.gateway.session.headers import parse
from downconvert.protocol.errors import BadRequestError
from downconvert.serving.request_memory import OneRequest
from records.units import KiB

LENGTH: Final = Struct(">i")
MEMORY_RETRY: Final = 0.01  # seconds until a request that got no memory tries again
PREFIX_SIZE: Final = 16 * KiB  # bytes of a request that are examined before it is forwarded


class ClientRequest:
    """One request. `prefix`: its beginning, or all of it after `whole`. `memory`: what it takes, if
    it is read whole. `frame`: the whole request, if it has been received already."""

    def __init__(
        self,
        client: Stream,
        size: int,
        limits: Limits,
        memory: OneRequest,
        frame: memoryview | None = None,
    ) -> None:
        self._client = client
        self._limits = limits
        self.memory = memory
        self.size = size
        if frame is None:
            frame = memoryview(bytes(client.available[: min(size, PREFIX_SIZE)]))
            client.consume(len(frame))
        self.prefix = frame
        self._left = size - len(self.prefix)

    @property
    def described(self) -> str:
        """For log lines."""
        try:
            return parse(self.prefix).described
        except BadRequestError:
            return "a request"

    async def whole(self) -> memoryview:
        """Reads all of it into memory. BadRequestError: it is too large for that.
        ConnectionEndedError, TimeoutError."""
        if self.size > self._limits.translated_size:
            raise BadRequestError(
                f"a request of {self.size} bytes is too large to be translated: the limit is "
                f"{self._limits.translated_size}"
            )
        whole = bytearray(self.prefix)
        seconds, loop = self._limits.receive_timeout, get_running_loop()
        async with timeout(seconds) as limit:
            while self._left:
                await self._client.ensure(1)
                size = min(len(self._client.available), self._left)
                while not self.memory.take(size):
                    if not self.memory.taken:  # so it keeps no other request waiting
                        limit.reschedule(loop.time() + seconds)
                    await sleep(MEMORY_RETRY)
                    if not self._client.may_bring(self._left):
                        raise ConnectionEndedError(CLIENT)
                whole += self._client.available[:size]
                self._left -= size
                self._client.consume(size)
        self.prefix = memoryview(whole)
        return self.prefix

    def release(self) -> None:
        """Gives back its memory, when only its beginning is still needed."""
        if self.memory.taken:
            self.prefix = memoryview(bytes(self.prefix[:PREFIX_SIZE]))
            self.memory.release()

    async def pass_to(self, other: Stream) -> None:
        """Forwards it unchanged."""
        other.send(LENGTH.pack(self.size) + bytes(self.prefix))
        if self._left or not other.is_writable:
            async with timeout(self._limits.receive_timeout):
                await forward(self._client, other, self._left)
                await other.drain()
            self._left = 0
