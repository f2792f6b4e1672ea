"""Idempotent and transactional producers, from a log's batches."""
