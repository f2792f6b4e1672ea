"""Which certificates of peers are trusted. Every Python trusts those that Kafka trusts.

Most certificates of Kafka's clients and brokers come from `openssl x509 -req`. Without an extension
file it writes no key usage and no key identifiers. Java accepts that. Since 3.13, Python's default
contexts refuse it, as RFC 5280 does (VERIFY_X509_STRICT). A configured authority is trusted even if
another one has signed it, as in Java's trust stores (VERIFY_X509_PARTIAL_CHAIN).

Not here: reading the files (pem.py)."""

import ssl


def trust_as_kafka(context: ssl.SSLContext) -> None:
    """Sets what a context asks of a certificate, besides a valid signature and date."""
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def client_context(ca_file: str | None = None) -> ssl.SSLContext:
    """A context for connections to a server, with these authorities or the system's. OSError: there
    are none in the file."""
    context = ssl.create_default_context(cafile=ca_file)
    trust_as_kafka(context)
    return context
