"""The simulator over a grid of options, on Spark."""
