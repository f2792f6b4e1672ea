"""Experiments on the fetch path: a workload, consumers, and what lazy conversion costs beside
eager and none."""

from .advice import advice
from .children import SimulationError
from .environment import environment
from .generate import generate
from .options import MODES, Mode, Options
from .policies import parse_policy
from .results import Result
from .simulation import segment_files, simulate
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
