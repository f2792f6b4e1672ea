"""Lazy against eager conversion: fetches of given segments over real sockets, measured."""
