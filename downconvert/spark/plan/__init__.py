"""Plans which parts of which segments a query reads."""
