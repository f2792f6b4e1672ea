"""How the tests are laid out.

`tests/<package>/test_<module>.py` tests one module of one package. Every folder is a package itself
(`__init__.py`), so that two modules of the same name do not collide, and so that what tests share
is imported by its full name from the project's root: `from tests import corpus`. pytest puts that
root on the path; mypy finds it where it starts.

- `corpus.py`: segments by Apache Kafka and what its converters made of them
- `strategies.py`: hypothesis strategies for records, batches and segments of every kind
- `data/`: the archives that these read; nothing outside of the project is read"""

import gc
import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from . import kafka_server

# A seed is printed with a failure, and a machine may be slow: no example fails for taking its time.
# HYPOTHESIS_PROFILE=thorough looks longer.
# The same cases in each run, so that a failure is of the change. `make test-all` looks for others.
PATIENT: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", PATIENT, derandomize=True, max_examples=50)
settings.register_profile("random", PATIENT, print_blob=True, max_examples=50)
settings.register_profile("thorough", PATIENT, print_blob=True, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Without Java there is no broker to start; an error where REQUIRE_JAVA is set.
NEEDS_KAFKA = "test_kafka_server.py"
collect_ignore = [] if kafka_server.REQUIRED or not kafka_server.missing() else [NEEDS_KAFKA]

# Tests of others' programs (Kafka's brokers and classes, Spark, clients of ten years) are marked
# `others`: `make test` leaves them out, `make test-all` and CI do not. CI leaves out those that are
# marked `more`. Those programs have timeouts of their own, and on a machine that is busy for a
# moment one gives up: such a test is tried once more, and the run says so; one that fails for a
# reason fails again.
OTHERS_PROGRAMS: Final = (
    "clients/test_clients.py",
    "clients/test_login.py",
    "clients/test_doctor.py",
    "downconvert/gateway/test_kafka_4.py",
    "downconvert/gateway/test_moving_leaders.py",
    "downconvert/broker/test_api_differential.py",
    "downconvert/broker/test_differential.py",
    "downconvert/broker/test_group_clients.py",
    "downconvert/broker/test_group_differential.py",
    "downconvert/broker/test_produce_differential.py",
    "downconvert/broker/test_transaction_clients.py",
    "downconvert/broker/test_transaction_log_differential.py",
    "downconvert/cli/test_spark.py",
    "downconvert/spark/jobs/test_session.py",
    "downconvert/spark/test_discovery.py",
    "downconvert/storage/test_kafka_accepts.py",
    "test_kafka_server.py",
)
OTHERS_SECONDS: Final = 900  # with the set-up, which may fetch a client, or start three JVMs


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    paths = {item.path for item in items if item.path.is_relative_to(here)}
    names = {path: path.relative_to(here).as_posix() for path in paths}
    for item in items:
        if name := names.get(item.path):
            needs_spark = "spark" in getattr(item, "fixturenames", ())
            is_marked = item.get_closest_marker("others") is not None
            if is_marked or name.startswith(OTHERS_PROGRAMS) or needs_spark:
                item.add_marker(pytest.mark.others)
                item.add_marker(pytest.mark.flaky(reruns=1))
                if item.get_closest_marker("timeout") is None:
                    item.add_marker(pytest.mark.timeout(OTHERS_SECONDS))
            if item.get_closest_marker("more") is not None:
                item.add_marker(pytest.mark.slow)
            # Tests that run on each kernel need not run on the reference once more.
            if {"kernel", "native"} & set(getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.each_kernel)


def pytest_collection_finish() -> None:
    """The collected tests stay until the end, so garbage collection need not look at them again."""
    gc.collect()
    gc.freeze()
