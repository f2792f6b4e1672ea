"""Whether a broker serves old clients as it says: topics are written to it, and fetched in every
version and with every kind of limit."""
