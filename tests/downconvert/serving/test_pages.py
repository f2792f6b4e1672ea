"""The page of metrics."""

from wsgiref.util import setup_testing_defaults

from prometheus_client import CollectorRegistry, Counter

from downconvert.serving.pages import metrics_page


def page(registry: CollectorRegistry, query: str = "") -> str:
    environ: dict[str, object] = {"QUERY_STRING": query}
    setup_testing_defaults(environ)
    return b"".join(metrics_page(registry)(environ, lambda *_: None)).decode()


def test_a_counter_is_one_series_and_not_two() -> None:
    registry = CollectorRegistry()
    Counter("requests", "Requests.", registry=registry).inc(3)
    Counter("answered", "Answers.", registry=registry).inc(2)
    shown = page(registry)
    assert "requests_total 3.0" in shown
    assert "answered_total 2.0" in shown
    assert "_created" not in shown


def test_some_metrics_are_selected_by_name() -> None:
    registry = CollectorRegistry()
    Counter("requests", "Requests.", registry=registry).inc(3)
    Counter("answered", "Answers.", registry=registry).inc(2)
    shown = page(registry, "name[]=requests_total")
    assert "requests_total 3.0" in shown
    assert "answered" not in shown
    assert "_created" not in shown
