"""Properties that are computed once, without threads that wait for each other.

Up to Python 3.11 `functools.cached_property` has one lock for all objects of a class: of two
threads that sort rows of their own, one waits until the other is done.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 12) or TYPE_CHECKING:
    from functools import cached_property
else:
    import functools

    class cached_property(functools.cached_property):
        """`functools.cached_property` as it is from Python 3.12 on, without a lock."""

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            """Return the value, from now on an attribute of the object."""
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


__all__ = ["cached_property"]
