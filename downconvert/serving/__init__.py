"""Code shared by both servers: fetch responses, produced records, limits, metrics, pages."""
