"""The operating system's words for an error, for one line of a log.

Python adds numbers and addresses, which the line has already."""

import os


def words_of(error: OSError) -> str:
    """The system's words, such as `Connection refused`. Errors of TLS and of names have no number
    of the system: their own words."""
    number = error.errno or 0  # for an unknown name it is negative
    if number > 0 and getattr(error, "reason", None) is None:  # TLS has a reason
        return os.strerror(number)
    return error.strerror or str(error) or type(error).__name__
