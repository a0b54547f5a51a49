"""Large functions in regions: equal ones are solved once, and remembered."""
