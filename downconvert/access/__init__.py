"""Identities and rights of clients: users, certificates, networks; topics, groups, transactional
ids."""
