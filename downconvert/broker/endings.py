"""Why a connection ended: for log lines, and as a label of metrics."""

from enum import StrEnum


class End(StrEnum):
    """The values are few, because each is a time series. The gateway uses the same ones."""

    CLIENT = "client_closed"
    TIMEOUT = "timed_out"
    REQUEST = "bad_request"
    REFUSED = "refused"  # before its first request: limits, networks
    LOGIN = "failed_login"
    EXPIRED = "session_expired"  # the client did not authenticate again in time
    RESPONSE = "unfinished_answer"  # the response had begun when damage on the disk was found
    STOPPED = "server_stopped"
    DEFECT = "defect"
