"""Every way rows come in, checked once: arrays, tensors, files, batches, workers, bundled sets."""
