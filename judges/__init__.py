"""Runs other projects' test suites against Kafka, the gateway and `downconvert serve`: `python -m
judges`."""
