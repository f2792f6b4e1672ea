"""A run of gateways from its first line to its end, with gateways that only say what they do."""

import gc
import json
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import click
import pytest

from downconvert.access.rights import Access, ConfigError
from downconvert.cli import gateway_run
from downconvert.cli.failure import CommandError
from downconvert.gateway.clusters import ONLY
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.figures import Figures
from downconvert.gateway.topology import Address
from downconvert.serving.garbage import FULL_EVERY
from tests.ports import LOOPBACK, free_ports

CLUSTER = Address("kafka", 9092)
CONFIG = GatewayConfig(bootstrap=(CLUSTER, Address("other", 9093)), listen=Address(LOOPBACK, 0))
BOUND = Address(LOOPBACK, 4711)


class Fake:
    """A gateway. `hooks`: what happens at each look at its figures, and then it is ended."""

    made: ClassVar[list["Fake"]] = []
    hooks: ClassVar[list[Callable[[], object]]] = []
    start_error: Exception | None = None
    reload_error: Exception | None = None

    def __init__(self, config: GatewayConfig, workers: int = 1, configure: Any = None) -> None:
        if config.tls_cert == "/no":
            raise ConfigError("tls_cert /no: there is no such file")
        self.config, self.workers, self.configure = config, workers, configure
        self.address = BOUND
        self.is_alive = True
        self.stopped = 0
        self.unready = ["it has not answered"]
        self.made.append(self)

    def start(self) -> None:
        if self.start_error is not None:
            raise self.start_error

    def stop(self) -> None:
        self.stopped += 1

    def reload(self, config: GatewayConfig) -> None:
        if self.reload_error is not None:
            raise self.reload_error
        self.config = config

    def figures(self) -> Figures:
        if self is self.made[0]:
            hook = self.hooks.pop(0) if self.hooks else ready
            hook()
        return Figures(unready=list(self.unready), last_old=[("t", "p", 5.0)])


def ready() -> None:
    """All clusters have answered. Then the run is ended."""
    for one in Fake.made:
        one.unready = []
    os.kill(os.getpid(), signal.SIGTERM)


def reload() -> None:
    os.kill(os.getpid(), signal.SIGHUP)


def nothing() -> None:
    """One more look: figures may be looked at twice before signals are."""


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(gateway_run, "Gateway", Fake)
    monkeypatch.setattr(gateway_run, "Processes", Fake)
    monkeypatch.setattr(gateway_run, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(gateway_run, "STORE_SECONDS", 0.002)
    caplog.set_level(logging.INFO, "downconvert.gateway")
    Fake.made, Fake.hooks = [], []
    Fake.start_error = Fake.reload_error = None


def run(
    clusters: dict[str, GatewayConfig],
    read_again: Any = None,
    *,
    workers: int = 1,
    http: Address | None = None,
    history: Path | None = None,
    as_json: bool = False,
) -> SimpleNamespace:
    """The handlers of logging after a run, and those of signals during it."""
    ends: list[str] = []
    Fake.made.clear()
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with click.Context(click.Command("gateway")).scope():
        gateway_run.run(
            clusters,
            read_again or (lambda: (clusters, ())),
            lambda *_: lambda: ends.append("log"),
            http,
            workers,
            history,
            as_json=as_json,
        )
    after = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert after == handlers
    return SimpleNamespace(ends=ends)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(one.levelno, one.getMessage()) for one in caplog.records]


def test_two_lines_say_where_clients_connect(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert run({ONLY: CONFIG}).ends == ["log"]
    assert capsys.readouterr().out.splitlines() == [
        f"connecting to kafka:9092, other:9093; clients will connect to {BOUND}",
        f"ready: clients connect to {BOUND}, brokers follow from port 4712 on; Ctrl-C ends it",
    ]
    assert lines(caplog)[-1] == (logging.INFO, "closing: requests under way are finished")
    assert [one.stopped for one in Fake.made] == [1]


def test_each_line_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    def response() -> None:
        Fake.made[0].unready = []

    Fake.hooks = [response, *[lambda: None] * 5]
    run({ONLY: CONFIG})
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert not Fake.hooks


def test_full_collections_are_rare_while_clients_are_served() -> None:
    found = list[int]()
    Fake.hooks = [lambda: found.append(gc.get_threshold()[2])]
    run({ONLY: CONFIG})
    assert found == [FULL_EVERY]


def test_lines_of_several_clusters_name_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    named = {"north": CONFIG, "south": replace(CONFIG, node_port_first=5000)}
    run(named)
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("north: connecting to kafka:9092, other:9093; ")
    assert out[1].startswith("south: connecting to ")
    assert "north: ready: " in out[2]
    assert "from port 4712 on" in out[2]
    assert "from port 5000 on" in out[3]
    assert len(out) == 4
    assert [one.stopped for one in Fake.made] == [1, 1]


@pytest.mark.parametrize("names", [(ONLY,), ("north", "south")])
@pytest.mark.parametrize("has_http", [True, False])
def test_programs_get_the_same_as_json(
    capsys: pytest.CaptureFixture[str], names: tuple[str, ...], has_http: bool
) -> None:
    http = Address(LOOPBACK, 0) if has_http else None
    run(dict.fromkeys(names, CONFIG), as_json=True, http=http)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["ready"] for one in found] == [False] * len(names) + [True] * len(names)
    for one, name in zip(found, names * 2, strict=True):
        assert (one["host"], one["port"]) == BOUND
        assert one.get("cluster", ONLY) == name
        assert ("cluster" in one) is (name != ONLY)
        assert (one.get("httpPort", BOUND[1]) != BOUND[1]) is has_http


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_several_processes_are_started_if_more_than_one_is_asked_for(workers: int) -> None:
    run({ONLY: CONFIG}, workers=workers)
    (one,) = Fake.made
    assert one.workers == workers
    assert (one.configure is None) is (workers == 1)


@pytest.mark.parametrize(
    ("name", "advice"),
    [(ONLY, "choose another with --listen"), ("south", "listen of cluster south")],
)
def test_a_port_in_use_ends_the_run_and_what_has_started(name: str, advice: str) -> None:
    Fake.start_error = OSError(98, "Address already in use")
    with pytest.raises(CommandError, match=advice):
        run({name: CONFIG})
    assert [one.stopped for one in Fake.made] == [1]


def test_an_invalid_setting_ends_the_run_with_its_text() -> None:
    with pytest.raises(CommandError, match="there is no such file"):
        run({ONLY: replace(CONFIG, tls_cert="/no", tls_key="/no")})


def test_an_http_port_in_use_is_named_and_one_in_use_by_us_is_free_afterwards() -> None:
    (port,) = free_ports(1)
    http = Address(LOOPBACK, port)
    run({ONLY: CONFIG}, http=http)
    run({ONLY: CONFIG}, http=http)
    unknown = Address("192.0.2.1", port)  # no address of this machine
    with pytest.raises(CommandError, match=f"cannot listen at {unknown}: .*; .* --http"):
        run({ONLY: CONFIG}, http=unknown)
    assert [one.stopped for one in Fake.made] == [1]


def test_the_history_is_kept_at_the_end_of_a_short_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_run, "STORE_SECONDS", 60.0)
    run({ONLY: CONFIG}, history=tmp_path / "history")
    assert json.loads((tmp_path / "history").read_text())["rows"] == [["t", "p", 5.0]]


def test_the_history_is_kept_while_it_runs(tmp_path: Path) -> None:
    path, sizes = tmp_path / "history", list[bool]()
    Fake.hooks = [lambda: sizes.append(path.exists())] * 30
    run({ONLY: CONFIG}, history=path)
    assert (sizes[0], sizes[-1]) == (False, True)
    assert json.loads(path.read_text())["rows"] == [["t", "p", 5.0]]


def test_it_ends_with_an_interrupt_too() -> None:
    Fake.hooks = [lambda: os.kill(os.getpid(), signal.SIGINT)]
    run({ONLY: CONFIG})
    assert [one.stopped for one in Fake.made] == [1]


@pytest.mark.parametrize("error", [CommandError("a"), ConfigError("b"), OSError("c")])
@pytest.mark.parametrize("is_read", [True, False])
def test_settings_that_cannot_be_read_or_applied_stay_as_they_were(
    caplog: pytest.LogCaptureFixture, error: Exception, is_read: bool
) -> None:
    def read_again() -> Any:
        if is_read:
            return {ONLY: CONFIG}, ()
        raise error

    if is_read and isinstance(error, CommandError):
        return  # a gateway raises none
    Fake.reload_error = error if is_read else None
    Fake.hooks = [reload, nothing]
    run({ONLY: CONFIG}, read_again)
    wanted = (logging.ERROR, f"the settings stay as they were: {error}")
    assert lines(caplog)[0] == wanted


LATER = replace(CONFIG, access=Access(is_read_only=True))
MOVED = replace(LATER, listen=Address(LOOPBACK, 1))
AGAIN = "the settings have been read again: "
WHO = "what clients may do"


@pytest.mark.parametrize(
    ("former", "later", "waiting", "expected"),
    [
        ([ONLY], {ONLY: CONFIG}, (), [(logging.INFO, "nothing has changed")]),
        ([ONLY], {ONLY: LATER}, (), [(logging.INFO, f"applied: {WHO}")]),
        (
            [ONLY],
            {ONLY: MOVED},
            ("--http",),
            [(logging.WARNING, f"applied: {WHO}; need a restart: listen, --http")],
        ),
        ([ONLY], {"a": CONFIG}, (), [(logging.WARNING, "need a restart: [[clusters]], cluster a")]),
        (
            ["a", "b"],
            {"a": LATER, "c": CONFIG},
            ("--http",),
            [
                (logging.WARNING, "need a restart: --http, cluster b, cluster c"),
                (logging.INFO, f"applied: {WHO}"),
            ],
        ),
        (["a"], {"a": LATER}, (), [(logging.INFO, f"applied: {WHO}")]),
    ],
)
def test_a_reload_says_what_it_applied_and_what_waits(
    caplog: pytest.LogCaptureFixture,
    former: list[str],
    later: dict[str, GatewayConfig],
    waiting: tuple[str, ...],
    expected: list[tuple[int, str]],
) -> None:
    Fake.hooks = [reload, nothing]
    run(dict.fromkeys(former, CONFIG), lambda: (later, waiting))
    found = [(level, text) for level, text in lines(caplog) if text.startswith(AGAIN)]
    assert found == [(level, AGAIN + text) for level, text in expected]
    fields = [one.fields for one in caplog.records if one.getMessage().startswith(AGAIN)]  # type: ignore[attr-defined]
    assert all({"applied", "after_restart"} <= one.keys() for one in fields)
    for name, one in zip(former, Fake.made, strict=True):
        assert one.config == later.get(name, CONFIG)


def test_settings_that_are_replaced_while_the_former_are_applied_are_the_last_to_apply() -> None:
    """Two signals come one after the other, and the second one during the first reading."""
    versions = [CONFIG, LATER]

    def read_again() -> Any:
        found = versions.pop(0)
        if versions:
            reload()
        return {ONLY: found}, ()

    Fake.hooks = [reload, *[nothing] * 4]
    run({ONLY: CONFIG}, read_again)
    assert not versions
    assert Fake.made[0].config == LATER


def test_a_signal_while_it_starts_has_the_settings_read_again_after_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, a gateway of several processes waits for them, and cannot ask them anything else."""
    said: list[str] = []

    def start(_: Fake) -> None:
        reload()
        said.append("started")

    monkeypatch.setattr(Fake, "start", start)
    run({ONLY: CONFIG}, lambda: said.append("read") or ({ONLY: CONFIG}, ()))
    assert said == ["started", "read"]


def test_a_run_that_is_to_end_reads_no_settings_again() -> None:
    def both() -> None:
        reload()
        os.kill(os.getpid(), signal.SIGTERM)

    Fake.hooks = [both]
    said: list[str] = []
    run({ONLY: CONFIG}, lambda: said.append("read") or ({ONLY: CONFIG}, ()))
    assert not said
