"""Who may do what: users, certificates and networks; topics, groups and transactional ids."""
