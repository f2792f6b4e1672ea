"""Replicas: followers, leader epochs, who is in sync."""
