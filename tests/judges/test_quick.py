"""The command itself, on the smallest selection: others' programs, so it waits for `test-all`."""

import pytest
from click.testing import CliRunner

from judges.__main__ import main
from judges.suites import SUITES
from judges.targets import TARGETS


def test_suites_and_targets_are_listed() -> None:
    done = CliRunner().invoke(main, ["--list"])
    assert done.exit_code == 0
    for name in (*(suite.name for suite in SUITES), *(target.name for target in TARGETS)):
        assert name in done.output


def test_every_target_s_reference_is_a_target() -> None:
    names = {target.name for target in TARGETS}
    assert {target.reference for target in TARGETS} <= names | {""}
    assert {target.old_reference for target in TARGETS} <= names | {""}


@pytest.mark.others
@pytest.mark.timeout(600)
def test_old_tools_and_kafka_python_pass_on_serve() -> None:
    """The producer of 0.10.2.2 is acknowledged, and what kafka-python's authors ask holds."""
    chosen = ["--suite", "kafka-tools", "--suite", "kafka-python", "--target", "serve"]
    done = CliRunner().invoke(main, [*chosen, "--quick"])
    assert done.exit_code == 0, done.output
    assert "pass 0.10.2.2 VerifiableProducer" in done.output
    assert "pass 0.10.2.2 VerifiableConsumer" in done.output
    assert "pass test_producer_integration.test_transactional_producer_messages" in done.output
    assert " fail " not in done.output.partition("\nsuite ")[0]
