"""Servers as processes, and the clients that load them."""
