"""Retention, compaction, and logs rewritten in a newer format."""
