"""The operating system's words for an error, for log lines.

Python's own text adds numbers and addresses, which the line already has."""

import os


def words_of(error: OSError) -> str:
    """The system's words, such as `Connection refused`. For errors of TLS and name resolution:
    their own words, because they have no number of the system."""
    number = error.errno or 0  # negative for an unknown host name
    if number > 0 and getattr(error, "reason", None) is None:  # only TLS errors have a reason
        return os.strerror(number)
    return error.strerror or str(error) or type(error).__name__
