"""Averaged conformity scores on the real line."""
