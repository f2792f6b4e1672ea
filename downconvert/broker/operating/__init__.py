"""Metrics and logs for the operator, and background maintenance of logs."""
