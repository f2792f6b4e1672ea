"""Clients of Maven Central and brokers need Java: where it is not there, nothing is collected here,
unless REQUIRE_JAVA is set. What else a test needs it says where it is skipped for want of it."""

from tests import kafka_server

from .combinations import MAVEN
from .install import missing

_NEED_JAVA = ["test_clients.py", "test_doctor.py", "applications/test_trials.py"]
collect_ignore = [] if kafka_server.REQUIRED or not missing(MAVEN) else _NEED_JAVA
