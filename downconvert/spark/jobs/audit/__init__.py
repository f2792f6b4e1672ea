"""Audits logs: formats, codecs, damage, and the costs of old clients."""
