"""The table says of each application what was seen, and names the setting that helps."""

from pathlib import Path

import pytest

from .application import AS_IT_COMES, Application, Does, Setting, Trial
from .outcome import Outcome
from .table import BEHIND, NEW, NOT_RUN, NOTHING, THE_GATEWAY, UNKNOWN, document, helps
from .target_names import TARGETS

NEWER = Setting('`version = "2.1.0"`')


def _install() -> Path:
    raise AssertionError("nothing is fetched for a table")


def _run(_: Trial) -> str:
    raise AssertionError("nothing is run for a table")


def _application(name: str = "An agent") -> Application:
    settings = (AS_IT_COMES, NEWER)
    return Application(
        name, "Somewhere: agent 1.0", "a client 0.9", Does.PRODUCES, settings, _install, _run
    )


def _outcomes(by_place: dict[tuple[Setting, str], str], complaint: str = "") -> list[Outcome]:
    return [
        Outcome(
            "An agent", setting.name, target, wrong, 0, complaint if wrong else "", "2026-01-01"
        )
        for (setting, target), wrong in by_place.items()
    ]


@pytest.mark.parametrize(
    ("by_place", "expected"),
    [
        ({(AS_IT_COMES, NEW): ""}, NOTHING),
        ({(AS_IT_COMES, NEW): "", (NEWER, NEW): "0 of 20"}, f"{NOTHING}; not {NEWER.name}"),
        ({(AS_IT_COMES, NEW): "0 of 20", (NEWER, NEW): ""}, NEWER.name),
        ({(AS_IT_COMES, NEW): "0 of 20", (AS_IT_COMES, BEHIND): ""}, THE_GATEWAY),
        ({(AS_IT_COMES, NEW): "0 of 20", (AS_IT_COMES, BEHIND): "3 of 20"}, UNKNOWN),
        ({}, NOT_RUN),
    ],
)
def test_an_advice_is_listed_only_if_a_run_showed_that_it_helps(
    by_place: dict[tuple[Setting, str], str], expected: str
) -> None:
    outcomes = {(one.application, one.setting, one.target): one for one in _outcomes(by_place)}
    assert helps(_application(), outcomes) == expected


def test_the_document_has_every_trial_its_day_and_its_complaint() -> None:
    old, new, gateway = TARGETS
    by_place = {
        (AS_IT_COMES, old): "",
        (AS_IT_COMES, new): "0 of 20",
        (AS_IT_COMES, gateway): "",
        (NEWER, new): "0 of 20",
    }
    outcomes = _outcomes(by_place, "error: `closed`")
    text = document([_application()], outcomes, [("A gem", "no registry of Ruby's | is reached")])
    assert "Run on 2026-01-01." in text
    first = "| **An agent** | a client 0.9; Somewhere: agent 1.0 | all | **0 of 20** | all |"
    assert f"{first} the gateway |" in text
    assert f"| An agent | {NEWER.name} | not run | **0 of 20** | not run |" in text
    where = f"Kafka {NEW}, as it comes; {NEWER.name}"
    assert f"* An agent, {where}: `error: 'closed'`" in text
    assert "| A gem | no registry of Ruby's \\| is reached |" in text


def test_a_program_that_never_ran_is_named_and_has_no_row() -> None:
    old, *_ = TARGETS
    outcomes = _outcomes({(AS_IT_COMES, old): ""})
    text = document([_application(), _application("Another")], outcomes, [])
    assert "**Another**" not in text
    assert "| Another | it could not be had, or was not tried |" in text
    assert "| all | not run | not run |" in text


def test_runs_against_another_version_have_a_table_of_their_own() -> None:
    outcomes = _outcomes({(AS_IT_COMES, NEW): "", (AS_IT_COMES, "4.0.0"): "0 of 20"})
    text = document([_application()], outcomes, [])
    assert "| An agent | as it comes | Kafka 4.0.0 | **0 of 20** |" in text
    assert "Kafka 4.0.0" not in document([_application()], outcomes[:1], [])
