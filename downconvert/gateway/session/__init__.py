"""A client's conversation with the gateway, without sockets."""
