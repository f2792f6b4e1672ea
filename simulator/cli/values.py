"""Option values of experiments."""

from typing import Final

from downconvert.cli.values import parsed
from simulator.workload import Workload

WORKLOAD: Final = parsed(Workload.parse)
