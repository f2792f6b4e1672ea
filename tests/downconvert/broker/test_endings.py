"""Why connections end: the labels of a metric, on which operators' alerts depend."""

from downconvert.broker.endings import End
from downconvert.gateway.figures import End as EndAtGateway


def test_the_labels_of_ends_stay_the_same() -> None:
    assert [(one.name, str(one)) for one in End] == [
        ("CLIENT", "client_closed"),
        ("TIMEOUT", "timed_out"),
        ("REQUEST", "bad_request"),
        ("REFUSED", "refused"),
        ("LOGIN", "failed_login"),
        ("EXPIRED", "session_expired"),
        ("RESPONSE", "unfinished_answer"),
        ("STOPPED", "server_stopped"),
        ("DEFECT", "defect"),
    ]


def test_the_gateway_has_the_same_labels_for_the_same_reasons() -> None:
    """One alert then covers both. Each has reasons of its own, and says who has stopped."""
    shared = {one.name for one in End} & {one.name for one in EndAtGateway} - {"STOPPED"}
    assert shared == {"CLIENT", "TIMEOUT", "REQUEST", "REFUSED", "LOGIN", "EXPIRED", "DEFECT"}
    assert {name: str(End[name]) for name in shared} == {
        name: str(EndAtGateway[name]) for name in shared
    }
