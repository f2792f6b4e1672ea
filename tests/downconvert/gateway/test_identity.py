import pickle
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.access.identity import ClientRule, Identified, Identities, Users, common_name
from downconvert.access.rights import Access, parse_network
from downconvert.gateway.security import Credentials
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from tests.certificates import self_signed, signed

from .serving import Wire, cluster, gateway
from .test_server import produced

DEFAULT = Identified(name="", access=Access(topics=("default",)), credentials=None)
OF_USER, OF_CERTIFICATE, OF_NETWORK = (Access(topics=(name,)) for name in "ucn")
CREDENTIALS = Credentials(mechanism="PLAIN", username="a", secret="b")
RULES = (
    ClientRule(access=OF_USER, credentials=CREDENTIALS, user="app-*"),
    ClientRule(access=OF_CERTIFICATE, credentials=None, certificate="*.example.org"),
    ClientRule(access=OF_NETWORK, credentials=None, networks=(parse_network("10.1.0.0/16"),)),
)


@pytest.mark.parametrize(
    ("address", "user", "certificate", "access"),
    [
        ("10.1.0.1", "app-1", None, OF_USER),
        ("10.1.0.1", "other", "a.example.org", OF_CERTIFICATE),
        ("10.1.0.1", None, None, OF_NETWORK),
        ("10.2.0.1", None, None, None),
        ("10.2.0.1", "other", "other", None),
    ],
)
def test_the_first_rule_that_fits_decides(
    address: str, user: str | None, certificate: str | None, access: Access | None
) -> None:
    found = Identities(rules=RULES).find(DEFAULT, address, user, certificate)
    assert (None if found is None else found.access) == access
    if access is OF_USER:
        assert found is not None
        assert found.credentials == CREDENTIALS


def test_without_rules_a_user_has_the_rights_of_the_listener() -> None:
    users = Identities(users=Users({"a": "b"}))
    found = users.find(DEFAULT, "10.0.0.1", "a")
    assert found is not None
    assert found.access == DEFAULT.access
    assert users.find(DEFAULT, "10.0.0.1") is None
    assert Identities().find(DEFAULT, "10.0.0.1") is not None


def test_users_travel_to_another_process() -> None:
    users = pickle.loads(pickle.dumps(Users({"a": "b"})))
    assert users.is_right("a", "b")
    assert not users.is_right("a", "c")


def test_the_common_name_of_a_certificate() -> None:
    subject = ((("organizationName", "x"),), (("commonName", "app"),))
    assert common_name({"subject": subject}) == "app"
    assert common_name({}) is None
    assert common_name(None) is None


def test_certificates_of_clients_have_the_rights_of_their_rules(tmp_path: Path) -> None:
    for name in ("log", "ca"):
        (tmp_path / name).mkdir()
    certificate, key = self_signed(tmp_path)
    ca, ca_key = self_signed(tmp_path / "ca")
    rules = (
        ClientRule(access=Access(), credentials=None, certificate="writer"),
        ClientRule(access=Access(is_read_only=True), credentials=None, certificate="*"),
    )
    with (
        cluster(tmp_path / "log", "t") as (_, port),
        gateway(
            port,
            tls_cert=certificate,
            tls_key=key,
            identities=Identities(client_ca=ca, rules=rules),
        ) as running,
    ):
        codes = {}
        for name in ("writer", "reader"):
            with Wire(running.address) as client:
                client.start_tls(certificate, signed(tmp_path, name, ca, ca_key))
                codes[name] = produced(client)
        assert codes == {"writer": 0, "reader": 29}
        with Wire(running.address) as client:
            client.start_tls(certificate)  # without one of its own
            client.send(ApiKey.Metadata, 1, Message(topics=None))
            assert client.has_ended()


def test_an_authority_that_is_taken_out_is_trusted_no_more(tmp_path: Path) -> None:
    """From the next connection on, also for a TLS session that began before."""
    certificate, key = self_signed(tmp_path)
    context = {}
    authorities = {}
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        authorities[name] = self_signed(tmp_path / name)
        context[name] = ssl.create_default_context(cafile=certificate)
        context[name].check_hostname = False
        context[name].load_cert_chain(*signed(tmp_path / name, name, *authorities[name]))
    (tmp_path / "log").mkdir()
    rule = ClientRule(access=Access(), credentials=None, certificate="*")
    identities = {
        name: Identities(client_ca=authorities[name][0], rules=(rule,)) for name in authorities
    }
    with (
        cluster(tmp_path / "log", "t") as (_, port),
        gateway(port, tls_cert=certificate, tls_key=key, identities=identities["old"]) as running,
    ):
        with Wire(running.address) as client:
            client.socket = wrapped = context["old"].wrap_socket(client.socket)
            assert produced(client) == 0
            session = wrapped.session
        running.reload(replace(running.config, identities=identities["new"]))
        assert produced_over_tls(running.address, context["new"], None) == 0
        for resumed in (None, session):
            with pytest.raises((EOFError, OSError)):
                produced_over_tls(running.address, context["old"], resumed)


def produced_over_tls(
    address: Address, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> int:
    with Wire(address) as client:
        client.socket = context.wrap_socket(client.socket, session=session)
        return produced(client)
