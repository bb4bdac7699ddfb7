"""The same counts on a device: PyTorch, and Triton where it pays; products and sums unfused."""
