"""Checks that a broker serves old clients: writes topics to it, and fetches them in every version
and with every kind of limit."""
