"""Figures and reports, drawn from computed results; each module says which library it needs."""
