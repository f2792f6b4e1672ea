"""The common part of all comparisons: segments, rounds, checks, tables."""
