"""Suites that others wrote judge Kafka, the gateway and `downconvert serve`: `python -m judges`."""
