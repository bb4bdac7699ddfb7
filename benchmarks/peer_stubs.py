"""What the peers ask for: a fitted model for MAPIE, and empty stand-ins for what TorchCP imports.

TorchCP is installed without its dependencies (torchsort does not build everywhere). Only the
benchmarks and parity checks use this, in an environment of their own.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types

ABSENT = ("torchsort", "torch_geometric", "transformers", "torchvision")


class EmptyFinder:
    """An import hook that finds an empty module wherever one of `ABSENT` is asked for."""

    def find_spec(self, name, path=None, target=None):
        """Return a spec for the packages that are stood in for."""
        if name.partition(".")[0] in ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        """Return a module in which every name is an empty class."""
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: type(name, (), {})
        return module

    def exec_module(self, module):
        """Run nothing."""


def import_torchcp():
    """Return the torchcp package."""
    sys.meta_path.insert(0, EmptyFinder())
    import torchcp

    return torchcp


def probabilities_as_features(n_classes):
    """Return a fitted classifier of scikit-learn whose features are its probabilities."""
    import numpy as np
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Fitted(ClassifierMixin, BaseEstimator):
        classes_ = np.arange(n_classes)

        def fit(self, X, y):
            return self

        def __sklearn_is_fitted__(self):
            return True

        def predict_proba(self, X):
            return X

        def predict(self, X):
            return X.argmax(axis=1)

    return Fitted()
