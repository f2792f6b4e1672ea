"""The cost of a chunk a call."""

from pathlib import Path

from click.testing import CliRunner

from bench.chunk_writes import CHANNELS, WAYS, main


def test_each_channel_and_way_has_a_ratio(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--smoke", "--segments", str(tmp_path)])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert len(lines) == 2 * len(CHANNELS) * len(WAYS)
    assert all(float(line.split()[-1]) > 0 for line in lines)
