"""Segment files: read, written, recovered."""
