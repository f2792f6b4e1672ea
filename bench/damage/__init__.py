"""Damaged segments, and the checks that each must pass."""
