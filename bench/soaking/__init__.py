"""Load and figures for runs of hours."""
