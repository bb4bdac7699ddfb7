# Started by `make fuzz` alone: it needs atheris, and instruments what it imports.
collect_ignore = ["guided.py"]
