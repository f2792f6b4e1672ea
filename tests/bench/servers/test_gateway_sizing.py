"""The sizing measures each kind of work, and computes its plan from the measurements."""

import re

import pytest
from click.testing import CliRunner

from bench.servers.gateway_sizing import Measured, plan, sizing
from records.units import KiB, MiB

MEASURED = Measured(
    idle=10 * KiB,
    process=40 * MiB,
    polls={"converted": 10_000.0, "passed": 10_000.0},
    rates={"lz4": 100e6, "passed": 2e9},
    logins={"PLAIN": 1_000.0, "SCRAM-SHA-512": 400.0},
    handshakes=500.0,
)


def test_a_plan_follows_from_the_measurements() -> None:
    need = plan(MEASURED, 10_000, brokers=3, polls=2.0, rate=10_000.0, codec="lz4")
    assert need.connections == 30_000
    assert need.cores == pytest.approx((10_000 * 2 / 10_000 + 10_000 * 10_000 / 100e6) * 1.5)
    assert need.memory == 5 * 40 * MiB + 30_000 * 10 * KiB
    assert need.storm == pytest.approx(30_000 * (1 / 500 + 1 / 400) / 5)


def test_few_clients_need_one_core() -> None:
    assert plan(MEASURED, 10, brokers=1, polls=1.0, rate=1.0, codec="lz4").cores == 1


@pytest.mark.slow
def test_everything_is_measured() -> None:
    done = CliRunner().invoke(
        sizing, ["--seconds", "0.02", "--connections", "20", "--log", "100000"]
    )
    assert done.exit_code == 0, done.output
    amounts = dict(re.findall(r"^(\S.*?) +([\d,.]+)(?: [KM]iB)?$", done.output, re.M))
    assert len(amounts) == 12
    assert all(float(amount.replace(",", "")) > 0 for amount in amounts.values())
    rows = re.findall(r"^ +([\d,]+) +([\d,]+) +[\d.]+ +[\d.]+ +[\d,]+$", done.output, re.M)
    assert rows == [("1,000", "3,000"), ("10,000", "30,000"), ("100,000", "300,000")]
