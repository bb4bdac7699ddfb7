# Started by `make assurance WHAT=fuzz` alone: it needs atheris, and instruments what it imports.
collect_ignore = ["guided.py"]
