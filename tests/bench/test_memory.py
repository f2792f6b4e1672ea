"""The memory of sends: one case in a separate process. `make bench-smoke` runs all cases."""

import pytest
from click.testing import CliRunner

from bench import memory
from bench.measuring.segments import SHAPES, segment
from bench.memory import MAPPED_MAX, Held, cases, in_child
from records.units import KiB

TINY = 10_000  # the full size is divided by it


def test_every_codec_is_among_the_cases(tmp_path):
    names = [name for name, _ in cases(tmp_path, TINY)]
    assert len(names) == 6 + 4 + 5
    for codec in ("none", "gzip", "lz4", "snappy", "zstd"):
        assert any(name.startswith(f"{codec}, one record") for name in names)


def test_a_case_reports_the_memory_that_it_held(tmp_path):
    warm_up = segment(SHAPES["lz4-100"], size=64 * KiB, directory=tmp_path)
    path = segment(SHAPES["lz4-100"], size=256 * KiB, directory=tmp_path)
    found = in_child("lz4-100", warm_up, path)
    assert (found.name, found.outcome) == ("lz4-100", "")
    assert found.source_size == path.stat().st_size
    assert found.records > 0
    assert found.sent_size > 0
    assert 0 <= found.growth <= MAPPED_MAX


@pytest.mark.parametrize(("outcome", "code"), [("", 0), ("needs more than 64 MiB", 1)])
def test_a_small_case_that_needs_too_much_fails_the_run(monkeypatch, outcome, code):
    monkeypatch.setattr(memory, "cases", lambda directory, _: [("lz4-100", directory)])
    monkeypatch.setattr(memory, "in_child", lambda name, *_: Held(name, 1, 2, 3, 4, 5, outcome))
    done = CliRunner().invoke(memory.main, ["--smoke"])
    assert done.exit_code == code
    assert outcome in done.output
