"""Studies behind choices of the library: run from a clone, not part of the wheel."""
