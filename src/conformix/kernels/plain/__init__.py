"""The kernels of `conformix.kernels.host` in NumPy, under the same names: nothing to compile."""
