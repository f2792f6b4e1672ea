"""A broker that says what a test wants of its cluster, and notes what it is asked.

Not here: a broker that says nothing (hanging.py), one that works (cluster.py)."""

import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from downconvert.gateway.session.headers import parse
from downconvert.protocol.decoder import decode
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import ApiKey, Message, is_flexible
from tests.ports import LOOPBACK

from .listening import Listening
from .serving import LENGTH

VERSIONS = {
    ApiKey.Metadata: 8,
    ApiKey.ApiVersions: 3,
    ApiKey.Heartbeat: 3,
    ApiKey.SaslHandshake: 1,
    ApiKey.SaslAuthenticate: 1,
}


class Scripted(Listening):
    """A broker. `brokers`: the ids of the cluster's, at its own port or at those of `ports`.

    `responses`: whether it answers a connection with this number, from 0 on. `versions`: the newest
    that it serves, by API. `users`: those that logged in, one for each connection."""

    def __init__(self, *brokers: int) -> None:
        self.brokers = list(brokers)
        self.ports: dict[int, int] = {}
        self.responses: Callable[[int], bool] = lambda _: True
        self.versions = dict(VERSIONS)
        self.users: list[str] = []
        self.asked: list[ApiKey] = []
        super().__init__()

    def take(self, near: socket.socket) -> None:
        if self.responses(self.accepted - 1):
            Thread(target=self._serve, args=(near,), daemon=True).start()
        else:
            near.close()

    def _serve(self, near: socket.socket) -> None:
        with near, suppress(OSError):
            while size := near.recv(LENGTH.size, socket.MSG_WAITALL):
                data = memoryview(near.recv(LENGTH.unpack(size)[0], socket.MSG_WAITALL))
                header = parse(data)
                api, version = header.api, header.version
                assert api is not None
                self.asked.append(api)
                body = decode(f"{api.name}Request", version, data[header.size :])
                response = encode(f"{api.name}Response", version, self.answer(api, body))
                tags = bytes(api is not ApiKey.ApiVersions and is_flexible(api, version))
                framed = header.correlation_id.to_bytes(4, signed=True) + tags + response
                near.sendall(LENGTH.pack(len(framed)) + framed)

    def answer(self, api: ApiKey, body: Message) -> Message:
        """The response to a request."""
        match api:
            case ApiKey.ApiVersions:
                keys = [
                    Message(api_key=key, min_version=0, max_version=newest)
                    for key, newest in self.versions.items()
                ]
                return Message(error_code=0, api_keys=keys)
            case ApiKey.Metadata:
                brokers = [
                    Message(node_id=n, host=LOOPBACK, port=self.ports.get(n, self.port))
                    for n in self.brokers
                ]
                return Message(brokers=brokers, topics=[], controller_id=-1)
            case ApiKey.SaslHandshake:
                return Message(error_code=0, mechanisms=["PLAIN"])
            case ApiKey.SaslAuthenticate:
                self.users.append(bytes(body.auth_bytes).split(b"\0")[1].decode())
                return Message(error_code=0, auth_bytes=b"")
        return Message(error_code=0)
