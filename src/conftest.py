"""Doctests leave out the modules that need an absent package."""

from importlib.util import find_spec

NEEDS = {
    "conformix/kernels/device/triton.py": "triton",
    "conformix/kernels/device/elementary_triton.py": "triton",
    "conformix/kernels/device/sums_triton.py": "triton",
    "conformix/scores/device.py": "torch",
    "conformix/data/tensors.py": "torch",
}

collect_ignore = [path for path, package in NEEDS.items() if find_spec(package) is None]
