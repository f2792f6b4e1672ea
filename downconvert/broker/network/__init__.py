"""Sockets of clients, and the threads that serve them."""
