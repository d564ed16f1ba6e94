"""Tables as text, CSV and JSON."""
