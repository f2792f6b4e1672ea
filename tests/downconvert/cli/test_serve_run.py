"""How the command runs its server. Not here: its responses (test_serve.py)."""

import gc
from pathlib import Path

import pytest

from downconvert.cli import serve_run
from downconvert.cli.failure import CommandError
from downconvert.serving.garbage import FULL_EVERY

from .running import Command


def test_full_collections_are_rare_while_clients_are_served(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[int]()

    def serving(*_: object, **__: object) -> None:
        found.append(gc.get_threshold()[2])
        raise CommandError("it is seen")

    monkeypatch.setattr(serve_run, "Server", serving)
    assert command("serve", tmp_path).code == 2
    assert found == [FULL_EVERY]
