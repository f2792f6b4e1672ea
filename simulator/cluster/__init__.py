"""Brokers, replicas and faults in simulated time."""
