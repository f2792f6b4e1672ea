"""The common part of the tables, pages and plots of all simulations."""
