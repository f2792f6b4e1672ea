"""Lazy against eager: fetches of given segments over real sockets, measured."""
