"""The same logins to Kafka 3.9.1 and to `serve`: conversations of a few frames, with right, wrong
and odd ones in any order. Each has a connection of its own.

The next frame of a conversation may depend on the server's last one, as in SCRAM. Responses are
compared without words, nonces and the number of SCRAM's iterations.

Not here: requests of clients that have logged in (run.py)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from scramp import ScramClient

from downconvert.access.credentials import SCRAM
from downconvert.broker import Broker
from downconvert.broker.server import Server
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import LENGTH_SIZE, parsed
from tests.downconvert.broker.guarding import guard_of
from tests.downconvert.broker.talking import Talk
from tests.kafka_secured import MECHANISMS, SECRET, USER, in_the_clear

from .connections_may_differ import CONNECTIONS, LOGIN
from .envelope import Envelope, envelope, framed
from .identities import SIDES
from .operations import Operation
from .responses import ENDED, Place

Address = tuple[str, int]
PATIENCE: Final = 20.0  # seconds
STEPS_MAX: Final = 6
ODD_MECHANISMS: Final = ("", "plain", "GSSAPI", "OAUTHBEARER", "x" * 300)
PLAIN_TOKENS: Final = tuple(
    one.encode("latin-1").replace(b"USER", USER.encode()).replace(b"SECRET", SECRET.encode())
    for one in (
        *("\0USER\0SECRET",) * 6,
        *("USER\0USER\0SECRET", "other\0USER\0SECRET", "\0USER\0wrong", "\0other\0SECRET"),
        *("\0\0SECRET", "\0USER\0", "\0\0", "", "USER", "\0USER", "USER\0SECRET", "\0\0\0\0"),
        *("\0USER\0SECRET\0", "\0USER\0SECRET ", "\xff\0USER\0SECRET", "\0USER\xff\0SECRET"),
        *("n,,n=USER,r=abc", "\0USER\n\0SECRET", "\0" + "x" * 10_000 + "\0SECRET"),
    )
)
# In place of what begins a first message of SCRAM.
SCRAM_STARTS: Final = (
    *("n,,n=", "n,,n=", "y,,n=", "p=tls-unique,,n=", "n,a=USER,n=", "n,a=other,n="),
    *("n,,m=x,n=", ",,n=", "n,n=", "n,,", "", "x,,n=", "n,,N=", "n,,a=1,n="),
)
# In place of, or after, what ends one.
SCRAM_ENDS: Final = ("", ",tokenauth=true", ",tokenauth=false", ",x=y", ",", ",,", "\0", "é")


@dataclass(frozen=True, slots=True)
class Step:
    """One frame: what it is, and how it is made of what a conversation knows."""

    said: str
    frame: Callable[["Conversation"], bytes]
    api: ApiKey | None = None  # None: a token without a header
    version: int = 0
    around: Envelope = field(default_factory=Envelope)

    def __str__(self) -> str:
        return f"{self.said}{self.around}"


@dataclass(slots=True)
class Conversation:
    """With one server."""

    talk: Talk
    password: str
    scram: ScramClient | None = None
    heard: bytes = b""  # the server's last token
    is_over: bool = False

    def take(self, step: Step) -> Any:
        """Sends a frame, and returns what the server makes of it."""
        try:
            self.talk.send_frame(step.frame(self))
            response = self.talk.receive()
        except (AssertionError, OSError):
            self.is_over = True
            return ENDED
        if step.api is None:
            self.heard = response[LENGTH_SIZE:]
            return _token(self.heard)
        version = step.around.response_version(step.version)
        found = parsed(step.api, step.version, response, version)
        if step.api is ApiKey.SaslAuthenticate:
            self.heard = bytes(found.auth_bytes)
            return found.error_code, _token(self.heard), found.session_lifetime_ms
        if step.api is ApiKey.SaslHandshake:
            return found.error_code, sorted(found.mechanisms)
        return getattr(found, "error_code", 0)

    def first(self, mechanism: str, start: str, end: str) -> bytes:
        """The client's first message of SCRAM, with another start and a longer end."""
        self.scram = ScramClient([mechanism], USER, self.password)
        made = self.scram.get_client_first()
        return (made.replace("n,,n=", start.replace("USER", USER)) + end).encode()

    def final(self, change: tuple[str, str], end: str) -> bytes:
        """The client's final message, with one part replaced."""
        try:
            assert self.scram is not None
            self.scram.set_server_first(self.heard.decode())
            made = str(self.scram.get_client_final())
        except Exception:  # there was no first message, or no answer to it
            made = "c=biws,r=abc,p=abcd"
        return (made.replace(*change) + end).encode()


def _token(token: bytes) -> list[str]:
    """The names of the fields in a token of SCRAM."""
    return [one.partition("=")[0] for one in token.decode("latin-1").split(",")] if token else []


def conversation(random: Random) -> tuple[str, list[Step]]:
    """The password that is used, and the steps."""
    password = SECRET if random.random() < 0.8 else "wrong"
    mechanism = random.choice((*MECHANISMS, "PLAIN"))
    if random.random() < 0.1:
        mechanism = random.choice(ODD_MECHANISMS)
    version = random.choice((0, 1, 1))
    steps = [_request(random, ApiKey.SaslHandshake, version, Message(mechanism=mechanism))]
    if mechanism == "PLAIN":
        token = random.choice(PLAIN_TOKENS)
        steps.append(_taken(random, f"{version} {token!r:.40}", lambda _: token))
    else:
        start, end = "n,,n=", ""
        other = mechanism if random.random() < 0.95 else random.choice(SCRAM)
        other = other if other in SCRAM else SCRAM[0]
        if random.random() < 0.4:
            start, end = random.choice(SCRAM_STARTS), random.choice(SCRAM_ENDS)
        steps.append(
            _taken(random, f"{version} first {start!r} {end!r}", _first(other, start, end))
        )
        change = ("", "")
        if random.random() < 0.4:
            change = random.choice((("c=", "C="), ("r=", "r=x"), ("p=", "p=x"), ("c=biws,", "")))
        end = random.choice(("", "", "", *SCRAM_ENDS))
        steps.append(_taken(random, f"{version} final {change} {end!r}", _final(change, end)))
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        steps.insert(random.randrange(len(steps) + 1), _other(random))
    if random.random() < 0.1:
        del steps[random.randrange(len(steps))]
    if random.random() < 0.1:
        steps.append(random.choice(steps) if steps else _other(random))
    steps.append(_request(random, ApiKey.Metadata, 5, Message(topics=[]), is_plain=True))
    return password, steps


def _first(mechanism: str, start: str, end: str) -> Callable[[Conversation], bytes]:
    return lambda one: one.first(mechanism, start, end)


def _final(change: tuple[str, str], end: str) -> Callable[[Conversation], bytes]:
    return lambda one: one.final(change, end)


def _taken(random: Random, said: str, token: Callable[[Conversation], bytes]) -> Step:
    """A token, mostly in the way that the version of its handshake asks for."""
    is_raw = said.startswith("0")
    if random.random() < 0.05:
        is_raw = not is_raw
    if is_raw:
        return Step(f"token {said}", token)
    api, version = ApiKey.SaslAuthenticate, random.choice((0, 1, 2))
    around = envelope(random, api, version)

    def frame(one: Conversation) -> bytes:
        return framed(around, api, version, Message(auth_bytes=token(one)))

    return Step(f"SaslAuthenticate v{version} {said}", frame, api, version, around)


def _request(
    random: Random, api: ApiKey, version: int, body: Message, *, is_plain: bool = False
) -> Step:
    around = Envelope() if is_plain else replace(envelope(random, api, version), changed=None)
    said = f"{api.name} v{version} {body}"
    return Step(said, lambda _: framed(around, api, version, body), api, version, around)


def _other(random: Random) -> Step:
    """Something that does not belong to the login."""
    match random.randrange(5):
        case 0:
            body = Message(client_software_name="x", client_software_version="1")
            return _request(random, ApiKey.ApiVersions, random.randrange(4), body)
        case 1:
            return _request(random, ApiKey.Metadata, 5, Message(topics=[]))
        case 2:
            token = random.choice(PLAIN_TOKENS)
            return Step(f"token {token!r:.40}", lambda _: token)
        case 3:
            mechanism = random.choice((*MECHANISMS, *ODD_MECHANISMS))
            body = Message(mechanism=mechanism)
            return _request(random, ApiKey.SaslHandshake, random.choice((0, 1)), body)
        case _:
            token = random.choice(PLAIN_TOKENS)
            return _taken(random, f"1 {token!r:.40}", lambda _: token)


def differing(servers: tuple[Address, Address], seed: int, count: int) -> Iterator[str]:
    """Runs so many conversations, and says where they differ."""
    for number in range(count):
        random = Random(f"{seed}/login/{number}")
        password, steps = conversation(random)
        # An address of its own: `serve` makes an address wait that has failed.
        source = f"127.{1 + number // 62_500 % 250}.{1 + number // 250 % 250}.{1 + number % 250}"
        talks = [Talk(servers[side], seconds=PATIENCE, source=source) for side in SIDES]
        sides = [Conversation(talk, password) for talk in talks]
        done: list[str] = []
        for step in steps:
            results = [side.take(step) for side in sides]
            done.append(f"{step} -> {results[0]}")
            if results[0] != results[1]:
                if not _may_differ(step, *results):
                    yield "\n  ".join((f"login {number}", *done, f"here {results[1]}"))
                break
            if any(side.is_over for side in sides):
                break
        for talk in talks:
            talk.socket.close()


def _may_differ(step: Step, kafkas: Any, ours: Any) -> bool:
    api, body = step.api or ApiKey.SaslAuthenticate, Message(said=step.said)
    asked = Operation(api, step.version, body, 0, step.around)
    place = Place(LOGIN, kafkas, ours, ({}, {}))
    return any(one.applies(asked, place) for one in CONNECTIONS)


@contextmanager
def with_logins() -> Iterator[tuple[Address, Address]]:
    """The addresses of Kafka and of `serve`. USER may log in at both in each way."""
    with (
        TemporaryDirectory(prefix="logins-") as directory,
        in_the_clear({"connection.failed.authentication.delay.ms": "0"}) as port,
        LogDir.open(Path(directory)) as log_dir,
    ):
        broker = Broker(log_dir)
        broker.guard = guard_of({USER: SECRET})
        with Server(broker) as server:
            yield ("127.0.0.1", port), server.address
