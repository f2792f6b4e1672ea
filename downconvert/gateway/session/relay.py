"""SASL of clients that log in to the cluster themselves, through the gateway.

After SaslHandshake v0 come tokens without a header. The gateway uses version 1 to the cluster, and
sends each token as a request. Not here: clients that log in to the gateway (login.py)."""

from typing import Final

from downconvert.protocol.decoder import decode
from downconvert.protocol.responses import ResponseSend
from downconvert.protocol.schemas import ApiKey, Message

from .answering import answered, raw_token, whole
from .exchanges import Ask, HangUp, Response, Steps
from .headers import Header

# The number of frames without a header after a SaslHandshake of version 0.
TOKENS: Final = {"PLAIN": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2, "OAUTHBEARER": 1}


class Relay:
    """The relayed login of one connection."""

    __slots__ = ("_tokens",)

    def __init__(self) -> None:
        self._tokens = 0

    @property
    def expects_token(self) -> bool:
        """Whether the next frame is a token without a header."""
        return self._tokens > 0

    def handshake(self, header: Header, frame: memoryview) -> Steps:
        """Handles SaslHandshake 0."""
        body = decode("SaslHandshakeRequest", 0, frame[header.size :])
        response = yield Ask(ApiKey.SaslHandshake, 1, body)
        if not response.error_code:
            self._tokens = TOKENS.get(body.mechanism, 1)
        return answered(header, response)

    def take(self, frame: memoryview, size: int) -> Steps:
        """Handles a token without a header. Closing the connection is the only way to report a
        failure."""
        frame = yield from whole(frame, size)
        response = yield Ask(ApiKey.SaslAuthenticate, 0, Message(auth_bytes=frame))
        if response.error_code:
            reason = f"the cluster refused to authenticate the client: {response.error_message}"
            return HangUp(reason, is_login=True)
        self._tokens -= 1
        return Response(ResponseSend([raw_token(bytes(response.auth_bytes))]))
