"""Spark jobs other than queries: audit, convert, export, find."""
