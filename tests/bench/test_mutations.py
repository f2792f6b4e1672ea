"""A few of the million damaged segments, and the report of a failure."""

import pytest
from click.testing import CliRunner

from bench import mutations
from bench.damage import trials
from bench.damage.mutants import Mutants
from bench.mutations import main
from tests.backends import NAMES

SMOKE = 2000


@pytest.mark.more  # `make bench-smoke` does the same
def test_no_damage_gets_through() -> None:
    done = CliRunner().invoke(main, ["--count", str(SMOKE), "--seed", "1"])
    assert done.exit_code == 0, done.output
    assert f"{SMOKE} mutants" in done.output


def test_a_mutant_is_made_of_its_seed_and_number() -> None:
    assert [str(Mutants(7)[number]) for number in (5, 3)] == [
        str(mutants[number]) for mutants in [Mutants(7)] for number in (5, 3)
    ]
    assert Mutants(7)[5].data != Mutants(8)[5].data


def test_a_failure_ends_with_the_command_that_shows_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails_once(mutant: object, _: int) -> tuple[None, int, int]:
        if getattr(mutant, "number", 0) == 3:
            raise IndexError("no RecordsError")
        return (None, 0, 0)

    monkeypatch.setattr(mutations, "TRIALS", (fails_once,))
    done = CliRunner().invoke(main, ["--count", "10", "--seed", "5", "--backend", "reference"])
    assert done.exit_code == 1
    assert "IndexError: no RecordsError" in done.output
    *_, last = done.output.splitlines()
    assert last == "reproduce: python -m bench.mutations --seed 5 --only 3 --backend reference"


@pytest.mark.skipif(len(NAMES) < 2, reason="compares both kernels")
@pytest.mark.parametrize("is_inside", [True, False])
def test_only_compressed_bytes_may_differ(is_inside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_bytes(_: object, guard: int) -> tuple[None, int, int]:
        return (None, 10, guard)  # which each kernel has its own of

    def inside(_: object, guard: int) -> tuple[None, int]:
        return (None, guard if is_inside else 0)

    def fails(_: object, guard: int) -> None:
        raise AssertionError(guard)

    def run() -> int:
        return CliRunner().invoke(main, ["--count", "3", "--seed", "5"]).exit_code

    monkeypatch.setattr(mutations, "what_is_inside", inside)
    monkeypatch.setattr(mutations, "TRIALS", (trials.read_all, other_bytes, trials.send_all))
    assert run() == is_inside
    monkeypatch.setattr(mutations, "what_is_inside", fails)
    done = CliRunner().invoke(main, ["--count", "3", "--seed", "5"])
    assert done.output.splitlines()[-1].startswith("reproduce: ")
    for others in ((other_bytes, trials.convert_all), (trials.read_all, trials.convert_all)):
        monkeypatch.setattr(mutations, "TRIALS", (*others, other_bytes))
        assert run() == 1


def test_sent_bytes_begin_like_converted_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    mutants = map(Mutants(7).__getitem__, range(100))
    mutant = next(each for each in mutants if trials.send_all(each, 0)[1])
    _, converted = trials.what_is_inside(mutant, 0)
    assert converted
    monkeypatch.setattr(trials, "convert_all", lambda *_: (None, 0, 0))
    with pytest.raises(AssertionError, match="sent"):
        trials.what_is_inside(mutant, 0)


def test_endless_loops_are_stopped() -> None:
    steps = trials.StepCount()
    for _ in range(trials.STEPS_MAX):
        steps.take()
    with pytest.raises(trials.CirclesError, match="steps"):
        steps.take()


def test_a_read_outside_of_the_records_is_noticed() -> None:
    records = trials.Watched.among(0xFF, b"data")
    target = memoryview(bytearray(10))
    assert records.read_into(target, 1) == 3
    assert bytes(target[:4]) == b"ata\0"
    with pytest.raises(trials.CirclesError, match="read at 5"):
        records.read_into(target, 5)
