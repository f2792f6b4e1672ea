"""Requests and responses as bytes: schemas, decoding, encoding."""
