"""What all comparisons share: segments, rounds, checks, tables."""
