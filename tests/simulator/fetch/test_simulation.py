"""A simulation from files to its result."""

from pathlib import Path

from simulator import Options, simulate
from tests.simulator.segments import batch, written


def test_each_mode_is_planned_run_and_reported(tmp_path: Path) -> None:
    path = written(tmp_path, *(batch(range(at, at + 50)) for at in range(0, 1000, 50)))
    steps: list[str] = []
    options = Options(consumers=1, slow=0, max_bytes=20_000, modes=("lazy", "zero-copy"), rounds=2)
    result = simulate("mine", [path], options, lambda what, _done, _total: steps.append(what))
    assert list(result.modes) == ["lazy", "zero-copy"]
    assert (result.name, result.records, result.size) == ("mine", 1000, path.stat().st_size)
    assert result.failures() == []
    rounds = {f"{mode}, round {n} of 2" for mode in ("lazy", "zero-copy") for n in (1, 2)}
    assert {"warm-up"} <= set(steps) <= {"lazy: plan", "zero-copy: plan", "warm-up", *rounds}
    assert [len(rounds.each) for rounds in result.modes.values()] == [2, 2]
