"""What both servers share: fetch responses, records of producers, limits, metrics, pages."""
