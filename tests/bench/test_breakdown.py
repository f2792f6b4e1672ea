"""The breakdown of a chunk's time."""

from click.testing import CliRunner

from bench.breakdown import STEPS, main


def test_each_step_adds_to_the_one_before(tmp_path):
    result = CliRunner().invoke(main, ["--smoke", "--segments", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert [line.split("  ")[0] for line in result.output.splitlines()] == [
        *STEPS,
        "fetches: plan, write_to, /dev/null",
        "together",
    ]
