"""Doctests leave out the modules that need an absent package."""

from importlib.util import find_spec

NEEDS = {"conformix/kernels/triton_counts.py": "triton", "conformix/tensors.py": "torch"}

collect_ignore = [path for path, package in NEEDS.items() if find_spec(package) is None]
