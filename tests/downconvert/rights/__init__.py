"""Every API and version, for every kind of rule and resource: who may do what, on the wire."""
