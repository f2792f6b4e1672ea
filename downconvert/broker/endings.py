"""Why a connection ended: for the log, and a label of metrics."""

from enum import StrEnum


class End(StrEnum):
    """Few, so that each may be a series. Those of the gateway are the same words."""

    CLIENT = "client_closed"
    TIMEOUT = "timed_out"
    REQUEST = "bad_request"
    REFUSED = "refused"  # before its first request: limits, networks
    LOGIN = "failed_login"
    EXPIRED = "session_expired"  # of a client that did not log in again in time
    ANSWER = "unfinished_answer"  # damage on the disk in an answer that had begun
    STOPPED = "server_stopped"
    DEFECT = "defect"
