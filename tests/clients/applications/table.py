"""The outcomes as a document: docs/applications.md."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tests import kafka_server

from .application import AS_IT_COMES, COUNT, Application, Setting
from .outcome import Outcome
from .target_names import GATEWAY, TARGETS, title

NEW: Final = kafka_server.NEW
BEHIND: Final = f"{GATEWAY}{NEW}"
NOTHING, THE_GATEWAY = "nothing is needed", "the gateway"
UNKNOWN, NOT_RUN = "nothing that was run", "not run"
COLUMNS: Final = 110

_HEAD: Final = f"""# Applications

This page says which applications with an embedded Kafka client work with Kafka
{kafka_server.OLD}, with Kafka {NEW}, and with the gateway in front of Kafka {NEW}.
If a client broke, see
[what to do](kafka-4-broke-my-client.md). [Old clients](old-clients.md) has libraries by
themselves.

In a trial, an application gets a new topic of one partition. It writes {COUNT} records, or reads
{COUNT} that are there. An application that monitors is asked for a group's lag, which is {COUNT}.
"All" means all of them. "Twice" counts records that came more than once, as after a retry.

`python -m tests.clients.applications --markdown docs/applications.md` writes this page. Each file
in `tests/clients/applications` is one kind of application, with its configuration. """


def document(
    applications: Sequence[Application],
    outcomes: Sequence[Outcome],
    not_run: Sequence[tuple[str, str]],
) -> str:
    """A document of the applications that were run: each outcome by application and setting."""
    by_name = {(one.application, one.setting, one.target): one for one in outcomes}
    run = [
        application
        for application in applications
        if any((application.name, AS_IT_COMES.name, target) in by_name for target in TARGETS)
    ]
    known = [
        by_name[application.name, setting.name, target]
        for application in run
        for setting in application.settings
        for target in TARGETS
        if (application.name, setting.name, target) in by_name
    ]
    elsewhere = [one for one in outcomes if one.target not in TARGETS]
    parts = [
        _HEAD,
        f"Run on {_days([*known, *elsewhere])}.\n",
        "\n## What Kafka 4 makes of them, and what helps\n\n",
        *_summary(run, by_name),
        "\n## With other settings\n\n",
        *_settings(run, by_name),
        *_elsewhere(elsewhere),
        "\n## What they say\n\n",
        "The last complaint of each that failed, without times and addresses.\n\n",
        *_complaints([*known, *elsewhere]),
    ]
    left = [one.name for one in applications if one not in run]
    if not_run or left:
        parts += ["\n## What was not run, and why\n\n", "| application | why |\n| --- | --- |\n"]
        parts += [f"| {name} | {_cell_text(why)} |\n" for name, why in not_run]
        parts += [f"| {name} | it could not be had, or was not tried |\n" for name in left]
    return "".join(parts)


def helps(application: Application, by_name: Mapping[tuple[str, str, str], Outcome]) -> str:
    """The settings with which an application does it on Kafka 4 by itself, else the gateway; and
    those to take out, where it does it only without them."""

    def right(setting: str, target: str) -> bool:
        found = by_name.get((application.name, setting, target))
        return found is not None and not found.wrong

    if (application.name, AS_IT_COMES.name, NEW) not in by_name:
        return NOT_RUN
    if right(AS_IT_COMES.name, NEW):
        broken = [one for one in application.settings if _broken(application, one, by_name)]
        return NOTHING + "".join(f"; not {one.name}" for one in broken)
    settings = [one.name for one in application.settings if right(one.name, NEW)]
    if settings:
        return " or ".join(settings)
    return THE_GATEWAY if right(AS_IT_COMES.name, BEHIND) else UNKNOWN


def _broken(
    application: Application, setting: Setting, by_name: Mapping[tuple[str, str, str], Outcome]
) -> bool:
    found = by_name.get((application.name, setting.name, NEW))
    return found is not None and bool(found.wrong)


def _days(outcomes: Iterable[Outcome]) -> str:
    return ", ".join(sorted({one.on for one in outcomes}))


def _summary(
    applications: Sequence[Application], by_name: Mapping[tuple[str, str, str], Outcome]
) -> Iterable[str]:
    names = [title(target) for target in TARGETS]
    heads = ("application, as it comes", "client inside; where from", *names, "what helps")
    yield f"| {' | '.join(heads)} |\n"
    yield f"| {' | '.join(['---'] * (len(TARGETS) + 3))} |\n"
    for one in applications:
        cells = [_cell(by_name.get((one.name, AS_IT_COMES.name, target))) for target in TARGETS]
        inside = f"{one.client}; {one.comes_from}"
        yield f"| {' | '.join((f'**{one.name}**', inside, *cells, helps(one, by_name)))} |\n"


def _settings(
    applications: Sequence[Application], by_name: Mapping[tuple[str, str, str], Outcome]
) -> Iterable[str]:
    """The results that differ from those of the default settings."""
    names = [title(target) for target in TARGETS]
    yield f"| application | setting | {' | '.join(names)} |\n"
    yield f"| {' | '.join(['---'] * (len(TARGETS) + 2))} |\n"
    for application in applications:
        for setting in application.settings:
            found = [by_name.get((application.name, setting.name, target)) for target in TARGETS]
            if any(found) and setting.name != AS_IT_COMES.name:
                row = (application.name, setting.name, *map(_cell, found))
                yield f"| {' | '.join(row)} |\n"


def _elsewhere(outcomes: Sequence[Outcome]) -> Iterable[str]:
    """The runs against other versions."""
    if outcomes:
        yield "\n## Other versions of Kafka\n\n"
        yield "| application | setting | run against | seen |\n| --- | --- | --- | --- |\n"
    for one in outcomes:
        yield f"| {one.application} | {one.setting} | {title(one.target)} | {_cell(one)} |\n"


def _complaints(outcomes: Iterable[Outcome]) -> Iterable[str]:
    """An item for each complaint of an application, with all settings that show it."""
    settings: dict[tuple[str, str, str], list[str]] = {}
    for one in outcomes:
        if one.wrong:
            key = (one.application, title(one.target), one.complaint)
            settings.setdefault(key, []).append(one.setting)
    for (application, target, complaint), found in settings.items():
        text = f"`{complaint.replace('`', chr(39))}`" if complaint else "nothing"
        item = f"* {application}, {target}, {'; '.join(found)}:"
        yield f"{item}{' ' if len(item) + len(text) < COLUMNS else chr(10) + '  '}{text}\n"


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return NOT_RUN
    if outcome.wrong:
        return f"**{outcome.wrong}**"
    return f"all, {outcome.twice} twice" if outcome.twice else "all"


def _cell_text(text: str) -> str:
    return text.replace("|", "\\|")
