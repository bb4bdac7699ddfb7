"""Real classifier outputs with labels, for examples, tests and experiments.

Files are read with ``numpy.load(..., allow_pickle=False)``. Sources and licences:
``LICENSES.md`` beside the files.
"""

from conformix.data.bundled.sources import Dataset, load, names

__all__ = ["Dataset", "load", "names"]
