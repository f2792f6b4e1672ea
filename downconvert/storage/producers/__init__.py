"""Idempotent and transactional producers, as the log knows them."""
