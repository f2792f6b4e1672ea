"""The picture of the dashboard: queries to Prometheus, and drawing its responses."""

import json
from pathlib import Path

from bench.dashboard import DASHBOARD, VARIABLES, Line, Panel, as_sent, draw, lines, sections

FOUND = sections(json.loads(DASHBOARD.read_text()))


def test_every_panel_is_asked_for_as_grafana_does() -> None:
    assert [title.split()[-1] for title in FOUND] == ["serve", "gateway"]
    queries = [query for panels in FOUND.values() for one in panels for query, _ in one.queries]
    assert len(queries) > 30
    assert any("$__rate_interval" in query for query in queries)
    assert not any("$" in as_sent(query) for query in queries)
    assert as_sent('rate(a{job=~"$job"}[$__rate_interval])') == (
        f'rate(a{{job=~".*"}}[{VARIABLES["$__rate_interval"]}])'
    )


def test_series_are_named_by_their_legend_and_nan_is_no_point() -> None:
    values = [[100.0, "1"], [105.0, "NaN"], [110.0, "2.5"]]
    result = [{"metric": {"api": "Fetch", "x": "y"}, "values": values}]
    result.append({"metric": {}, "values": [[100.0, "NaN"]]})
    found = lines({"data": {"result": result}}, "{{api}} {{code}}: told", 100.0)
    assert found == [Line("Fetch : told", [0.0, 10.0], [1.0, 2.5])]


def test_a_section_is_drawn_with_and_without_data(tmp_path: Path) -> None:
    empty = Panel("none", (8, 1, 8, 8), "s", [])
    full = Panel("some", (0, 1, 8, 8), "bytes", [])
    drawn = [Line(f"series {number}", [0.0, 5.0], [1.0, 2.0]) for number in range(20)]
    draw("title", [(full, drawn), (empty, [])], tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
