"""Clients of Maven Central and brokers need Java. Without it, nothing is collected here, unless
REQUIRE_JAVA is set. A skipped test names what else is missing."""

from tests import kafka_server

from .combinations import MAVEN
from .install import missing

_NEED_JAVA = ["test_clients.py", "test_doctor.py", "applications/test_trials.py"]
collect_ignore = [] if kafka_server.REQUIRED or not missing(MAVEN) else _NEED_JAVA
