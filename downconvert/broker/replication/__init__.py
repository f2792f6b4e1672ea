"""Replicas: followers, leader epochs and the ISR."""
