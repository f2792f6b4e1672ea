"""Experiments on the fetch path: workloads, consumers, and the cost of lazy conversion compared
with eager conversion and with no conversion."""

from simulator.fetch.options import Options
from simulator.fetch.results import Result
from simulator.fetch.simulation import simulate

from .children import SimulationError
from .environment import environment
from .generate import generate
from .modes import MODES, Mode
from .workload import Workload

__all__ = [
    "MODES",
    "Mode",
    "Options",
    "Result",
    "SimulationError",
    "Workload",
    "environment",
    "generate",
    "simulate",
]
