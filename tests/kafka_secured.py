"""A broker of Apache Kafka with a second listener, which wants a login.

    with running() as (address, certificate):                     # over TLS
        ...
    with authorizing(jaas) as (kafka, port):                      # in the clear, with ACLs
        ...
    with in_the_clear({}) as port:                                # without ACLs
        ...

Java and Maven are needed, and openssl for TLS."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafka import KafkaAdminClient
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from . import kafka_server
from .certificates import self_signed
from .ports import free_ports

USER, SECRET = "tester", "right"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OF: Final = "listener.name.secure."
_LOGINS: Final = "org.apache.kafka.common.security"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@contextmanager
def running(version: str = kafka_server.OLD) -> Iterator[tuple[str, str]]:
    """`localhost:PORT`, where USER may log in with SECRET in each way, and the certificate."""
    classpath = kafka_server.prepare(version)
    with tempfile.TemporaryDirectory(prefix="kafka-") as temporary:
        directory = Path(temporary)
        options = (*kafka_server.QUICK, *kafka_server.archived(classpath))
        server = kafka_server.KafkaServer(classpath, directory, [directory / "log"], {}, options)
        certificate, key = self_signed(directory)
        both = directory / "both.pem"
        both.write_text(Path(key).read_text() + Path(certificate).read_text())
        port = _add_listener(directory, "SASL_SSL", _listener(both))
        try:
            server.start()
            _add_users(server.bootstrap)
            yield f"localhost:{port}", certificate
        finally:
            server.close()


@contextmanager
def authorizing(
    jaas: str,
    super_user: str,
    properties: Mapping[str, str],
    version: str = kafka_server.OLD,
) -> Iterator[tuple[kafka_server.KafkaServer, int]]:
    """A broker with ACLs, and the port at which the users in `jaas` log in with PLAIN. Clients of
    its first listener may do everything, as `super_user` may."""
    classpath = kafka_server.prepare(version)
    with tempfile.TemporaryDirectory(prefix="kafka-") as temporary:
        directory = Path(temporary)
        with_acls = {
            "authorizer.class.name": _AUTHORIZER,
            "super.users": f"User:ANONYMOUS;User:{super_user}",
        }
        server = kafka_server.KafkaServer(
            classpath,
            directory,
            [directory / "log"],
            dict(properties) | with_acls,
            (*kafka_server.QUICK, *kafka_server.archived(classpath)),
        )
        login = {
            f"{_OF}plain.sasl.jaas.config": jaas,
            f"{_OF}sasl.enabled.mechanisms": "PLAIN",
        }
        port = _add_listener(directory, "SASL_PLAINTEXT", login)
        try:
            server.start()
            yield server, port
        finally:
            server.close()


@contextmanager
def in_the_clear(properties: Mapping[str, str], version: str = kafka_server.OLD) -> Iterator[int]:
    """The port at which USER may log in with SECRET in each way, without TLS."""
    classpath = kafka_server.prepare(version)
    with tempfile.TemporaryDirectory(prefix="kafka-") as temporary:
        directory = Path(temporary)
        options = (*kafka_server.QUICK, *kafka_server.archived(classpath))
        made = dict(properties)
        server = kafka_server.KafkaServer(classpath, directory, [directory / "log"], made, options)
        port = _add_listener(directory, "SASL_PLAINTEXT", _logins())
        try:
            server.start()
            _add_users(server.bootstrap)
            yield port
        finally:
            server.close()


def _add_listener(directory: Path, protocol: str, settings: Mapping[str, str]) -> int:
    """Adds a listener to the settings of the one node. Returns its port."""
    (port,) = free_ports(1)
    file = directory / "node-0" / "server.properties"
    all_settings = dict(line.split("=", 1) for line in file.read_text().splitlines())
    for name in ("listeners", "advertised.listeners"):
        all_settings[name] += f",SECURE://localhost:{port}"
    all_settings["listener.security.protocol.map"] += f",SECURE:{protocol}"
    all_settings |= settings
    file.write_text("".join(f"{name}={value}\n" for name, value in all_settings.items()))
    return port


def _listener(certificate_and_key: Path) -> dict[str, str]:
    return _logins() | {
        f"{_OF}ssl.keystore.type": "PEM",
        f"{_OF}ssl.keystore.location": str(certificate_and_key),
    }


def _logins() -> dict[str, str]:
    """The settings with which USER may log in in each way."""
    plain = f'{_LOGINS}.plain.PlainLoginModule required user_{USER}="{SECRET}";'
    scram = f"{_LOGINS}.scram.ScramLoginModule required;"
    logins = {
        f"{_OF}{mechanism.lower()}.sasl.jaas.config": plain if mechanism == "PLAIN" else scram
        for mechanism in MECHANISMS
    }
    return logins | {f"{_OF}sasl.enabled.mechanisms": ",".join(MECHANISMS)}


def _add_users(bootstrap: str) -> None:
    """For SCRAM, whose users are in the cluster's metadata."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        user = UserScramCredentialUpsertion(USER, mechanism, SECRET)
        refused = admin.alter_user_scram_credentials([user])  # one request takes a user once
        assert not any(refused.values()), refused
    admin.close()
