"""The experiments of the paper (Luo & Zhou, 2025), each a list of specs and a way to show rows."""

from conformix.experiments.paper.reproduce import EXPERIMENTS, reproduce, resolve_experiments
from conformix.experiments.paper.setup import Product, Setup

__all__ = ["EXPERIMENTS", "Product", "Setup", "reproduce", "resolve_experiments"]
