"""An error of the system is reported in the system's words, without numbers and addresses."""

import errno
import socket
import ssl

from downconvert.serving.system_errors import words_of


def test_an_error_with_a_number_has_the_systems_words_only() -> None:
    error = OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)")
    assert words_of(error) == "Connection refused"


def test_an_unknown_name_and_an_error_of_tls_keep_their_own_words() -> None:
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert words_of(error) == "Name or service not known"
    failed = ssl.SSLError(1, "wrong version number")
    failed.reason = "WRONG_VERSION_NUMBER"
    assert words_of(failed) == "wrong version number"


def test_an_error_without_words_has_its_type() -> None:
    assert words_of(OSError()) == "OSError"
    assert words_of(TimeoutError("silent")) == "silent"
