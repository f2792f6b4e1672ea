"""The benchmarks of the log on disk, at a small size: they run, and their results are right."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import crash, index_lookup, open_log_dir, zero_copy


def run(module, *arguments):
    done = CliRunner().invoke(module.main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def lookups(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Path]:
    """The output of one small run, and the paths of its figures and its picture."""
    directory = tmp_path_factory.mktemp("lookups")
    found, picture = directory / "found.json", directory / "pages.svg"
    options = ("--smoke", "--dir", directory, "--json", found, "--plot", picture)
    return run(index_lookup, *options), found, picture


@pytest.mark.slow
def test_lookups_are_compared_with_a_plain_search(lookups: tuple[str, Path, Path]) -> None:
    output, _, _ = lookups
    assert "offset index, near the end" in output
    assert "time index, anywhere" in output


@pytest.mark.slow
def test_pages_are_counted_if_the_disk_can_evict_them(lookups: tuple[str, Path, Path]) -> None:
    output, found, picture = lookups
    if "pages are not counted" in output:  # a file system in memory
        assert not picture.exists()
        return
    figures = json.loads(found.read_text())
    near, anywhere = figures["pages"]
    assert near["least"] <= near["ours"] <= 3 < near["plain"]
    assert anywhere["ours"] <= anywhere["plain"] + 2
    last = figures["growth"][-1]
    assert last["ours"] < last["plain"]
    assert picture.stat().st_size > 1000


def test_every_way_to_send_a_log_sends_all_of_it(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    run(zero_copy, "--smoke", "--dir", tmp_path, "--json", found)
    turns = json.loads(found.read_text())
    assert len({turn["size"] for way in turns.values() for turn in way}) == 1
    assert set(turns) == {"bare sendfile", "our send", "whole fetch", "read and send"}


def test_a_log_of_many_segments_stays_small(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    run(open_log_dir, "--segments", 50, "--segments", 500, "--json", found)
    small, large = json.loads(found.read_text())
    assert (small["segments"], large["segments"]) == (50, 500)
    assert large["bytes_each"] < 2048


@pytest.mark.parametrize("way", ["machine", "process"])
def test_crashed_logs_lose_nothing(way: str) -> None:
    output = run(crash, "--deaths", 4, "--seed", 3, "--way", way)
    assert f"{way}: died 4 times" in output


def test_a_loss_is_reported_with_the_command_that_repeats_it(monkeypatch) -> None:
    def lose(*_):
        raise AssertionError("ends at 5 of 7 flushed offsets")

    monkeypatch.setitem(crash.WAYS, "machine", lose)
    done = CliRunner().invoke(crash.main, ["--deaths", "4", "--seed", "9", "--way", "machine"])
    assert done.exit_code == 1
    assert "reproduce: python -m bench.crash --way machine --seed 9 --deaths 4" in done.output
