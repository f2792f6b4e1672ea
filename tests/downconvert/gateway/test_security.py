"""The gateway's own security towards the cluster."""

import ssl
from pathlib import Path

import pytest

from downconvert.access.rights import ConfigError
from downconvert.gateway.security import ClusterSecurity, Credentials, tls_context
from tests.certificates import self_signed


def test_a_cluster_without_tls_has_no_context(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    assert tls_context(ClusterSecurity(ca_file=missing, cert_file=missing)) is None


def test_brokers_are_verified_and_their_names_too_unless_it_is_switched_off(tmp_path: Path) -> None:
    certificate, _ = self_signed(tmp_path)
    for verifies in (True, False):
        security = ClusterSecurity(tls=True, ca_file=certificate, verify_hostname=verifies)
        context = tls_context(security)
        assert context is not None
        assert context.check_hostname is verifies
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert len(context.get_ca_certs()) == 1


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    missing = str(tmp_path / "missing.pem")
    assert tls_context(ClusterSecurity(tls=True, cert_file=certificate, key_file=key)) is not None
    for security in (
        ClusterSecurity(tls=True, ca_file=missing),
        ClusterSecurity(tls=True, cert_file=missing, key_file=key),
        ClusterSecurity(tls=True, cert_file=certificate, key_file=missing),
    ):
        with pytest.raises(
            ConfigError, match=r"_file .*missing\.pem: No such file .*\(TLS to the cluster\)"
        ):
            tls_context(security)


def test_an_unknown_mechanism_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="SASL mechanism 'GSSAPI' is not known: use one of PLAIN"):
        Credentials(mechanism="GSSAPI")


def test_a_secret_is_not_shown() -> None:
    assert "pencil" not in repr(Credentials(mechanism="PLAIN", username="user", secret="pencil"))
