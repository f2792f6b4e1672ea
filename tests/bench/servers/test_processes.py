"""Servers as separate processes: they start, print their address, are measured, and end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.servers.draining import Wire, parsed, request
from bench.servers.processes import served, settled, started, status
from downconvert.protocol.schemas import ApiKey, Message


def test_a_server_answers_and_is_measured_until_it_is_stopped(tmp_path: Path) -> None:
    with served(tmp_path) as serving:
        with Wire(serving.address) as wire:
            wire.send(request(ApiKey.ApiVersions, 0, Message()))
            assert parsed(ApiKey.ApiVersions, 0, wire.response()).error_code == 0
        assert 0 < serving.memory <= serving.resident
        assert serving.cpu_seconds > 0
    assert not Path(f"/proc/{serving.pid}").exists()


def test_a_server_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="did not start"), served(tmp_path / "missing"):
        pass
    with pytest.raises(RuntimeError, match="did not start"), started("gateway"):
        pass


def test_a_size_that_grows_is_waited_for() -> None:
    sizes: Iterator[int] = iter([0, 2**20, 2**21])
    assert settled(lambda: next(sizes, 2**22)) == 2**22


def test_a_field_that_the_system_does_not_have_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="does not say Nothing"):
        status("Nothing")
