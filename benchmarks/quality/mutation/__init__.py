"""Small faults put into the code, and whether tests notice."""
