"""Retention, compaction, and upgrades of logs to a newer format."""
