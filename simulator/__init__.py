"""Experiments on the fetch path: a workload, consumers, and what lazy conversion costs beside
eager and none."""

from downconvert.cli.advice import advice
from downconvert.conversion.policies import parse_policy
from simulator.fetch.options import MODES, Mode, Options
from simulator.fetch.results import Result
from simulator.fetch.simulation import segment_files, simulate

from .children import SimulationError
from .environment import environment
from .generate import generate
from .workload import Workload

__all__ = [
    "MODES",
    "Mode",
    "Options",
    "Result",
    "SimulationError",
    "Workload",
    "advice",
    "environment",
    "generate",
    "parse_policy",
    "segment_files",
    "simulate",
]
