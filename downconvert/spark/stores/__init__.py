"""Files in object stores and file systems: listing, ranges, archives."""
