"""Converts whole log directories to an older format."""
