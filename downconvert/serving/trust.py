"""Trusts the peer certificates that Kafka trusts, in every Python version.

Most certificates of Kafka's clients and brokers come from `openssl x509 -req`. Without an extension
file it writes no key usage and no key identifiers. Java accepts that. Since 3.13, Python's default
contexts refuse it, as RFC 5280 does (VERIFY_X509_STRICT). A configured CA is trusted even if it is
an intermediate one, as in Java's trust stores (VERIFY_X509_PARTIAL_CHAIN).

Not here: reading the files (pem.py)."""

import ssl


def trust_as_kafka(context: ssl.SSLContext) -> None:
    """Sets the checks of certificates, besides signature and date."""
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def client_context(ca_file: str | None = None) -> ssl.SSLContext:
    """A context for connections to a server, with the CAs in this file, or else the system's.
    OSError: the file has none."""
    context = ssl.create_default_context(cafile=ca_file)
    trust_as_kafka(context)
    return context
