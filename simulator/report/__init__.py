"""What the tables, pages and plots of all simulations have in common."""
