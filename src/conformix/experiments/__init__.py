"""Experiments: the machinery behind the demo and the tables of the docs."""
