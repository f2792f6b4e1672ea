"""The common part of all reports: the look of pages, and writing them."""
