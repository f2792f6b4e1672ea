"""Runs applications against targets, a trial at a time."""

import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from .application import NAMES, Application, Does, Setting, Trial
from .outcome import Outcome, complaint, judged
from .packages import HOME
from .targets import Target

TRIALS: Final = HOME / "trials"
SECONDS: Final = 60.0  # for a trial, where it does not say by itself that it has failed


def tried(
    application: Application, targets: Sequence[Target], settings: Sequence[Setting], seconds: float
) -> Iterator[Outcome]:
    """InstallError: it is not to be had."""
    installed = application.install()
    for setting in settings:
        for target in targets:
            yield _one(application, setting, target, installed, seconds)


def _one(
    application: Application, setting: Setting, target: Target, installed: Path, seconds: float
) -> Outcome:
    started = datetime.now(UTC)
    topic = f"trial-{started:%H%M%S%f}"
    directory = TRIALS / f"{_plain(application.name)}.{_plain(setting.name)}.{target.name}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    trial = Trial(installed, directory, target, topic, setting, seconds)
    target.create(topic)
    if application.does is not Does.PRODUCES:
        target.fill(topic, NAMES)
    if application.group:
        target.commit(application.group, topic, 0)
    seen = application.run(trial)
    if application.does is Does.PRODUCES:
        seen = target.texts(topic)
    wrong, twice = judged(application.does, seen)
    output = trial.log.read_text(errors="replace") if wrong and trial.log.exists() else ""
    return Outcome(
        application.name,
        setting.name,
        target.name,
        wrong,
        twice,
        complaint(output),
        f"{started:%Y-%m-%d}",
    )


def _plain(name: str) -> str:
    """A name that a directory may have."""
    return "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in name)[:80]
