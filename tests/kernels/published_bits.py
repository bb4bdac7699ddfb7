"""The inputs whose results `exp`, `log` and `softmax` are known by, and the checksums of these.

Inputs are made of whole-number arithmetic, so that no library draws them. The checksums of a
machine are printed by ``python tests/kernels/published_bits.py numpy`` (or ``numba``, ``torch`` or
``cuda``).
"""

from __future__ import annotations

import hashlib
import json
import sys

import numpy as np

from conformix.kernels import elementary

# sha256 of the results as little-endian doubles; docs/numerics.md states them.
PUBLISHED = {
    "exp": "76e736c1c9e07bf89e3fea199d680fdd3c289885e79f5e82c5e2c756e5ff7d3d",
    "log": "2a56d403e861bf71ec79f7eb98da510cd4441731c9e5d18186a6f1c9f21fbd16",
    "softmax": "52d9e88c808d67297af14f89c9420591b93b69995d667d5f4c106d4d27659d33",
}
EACH = 2**18
EXPONENT = np.uint64(0x7FF << 52)


def scrambled(seed: int) -> np.ndarray:
    """Return 64 bits for each of 0, 1, ..., by the finaliser of splitmix64."""
    with np.errstate(over="ignore"):
        x = (np.arange(EACH, dtype=np.uint64) + np.uint64(seed << 32)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def shares(seed: int) -> np.ndarray:
    """Return multiples of 2^-53 in [0, 1)."""
    return (scrambled(seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def any_bits(seed: int) -> np.ndarray:
    """Return floats of all sizes and both signs; infinities for what is not a number."""
    bits = scrambled(seed)
    bits = np.where((bits & EXPONENT) == EXPONENT, bits & ~np.uint64(2**52 - 1), bits)
    return bits.view(np.float64)


def nearby(values: np.ndarray, seed: int) -> np.ndarray:
    """Return floats at most eight neighbours away."""
    steps = (scrambled(seed) & np.uint64(15)).astype(np.int64) - 8
    return (values.view(np.int64) + steps).view(np.float64)


def exp_inputs() -> np.ndarray:
    segments = (scrambled(1) % np.uint64(268_000)).astype(np.float64) - 137_000.5
    meetings = segments * 0.0054152123481245725  # log(2) / 128
    return np.concatenate(
        [any_bits(2), shares(3) * 1456.0 - 746.0, shares(4) * -32.0, nearby(meetings, 5)]
    )


def log_inputs() -> np.ndarray:
    places = (scrambled(6) % np.uint64(256)).astype(np.int64) << 44
    exponents = ((scrambled(7) % np.uint64(2000)).astype(np.int64) - 1000) << 52
    meetings = (0x3FE6A00000000000 + places + exponents).view(np.float64)
    around_one = 1.0 + (shares(8) - 0.5) * 2.0**-6
    return np.concatenate([np.abs(any_bits(9)), shares(10), around_one, nearby(meetings, 11)])


def logits() -> np.ndarray:
    return (shares(12) * 40.0).reshape(-1, 1000 + 24)


def in_numpy() -> dict[str, np.ndarray]:
    return {
        "exp": elementary.exp(exp_inputs()),
        "log": elementary.log(log_inputs()),
        "softmax": elementary.softmax(logits()),
    }


def in_numba() -> dict[str, np.ndarray]:
    from conformix.kernels.host.elementary import exp_into, log_into, softmax_into

    results = {"exp": exp_inputs(), "log": log_inputs(), "softmax": logits()}
    exp_into(results["exp"], results["exp"])
    log_into(results["log"], results["log"])
    softmax_into(results["softmax"], results["softmax"])
    return results


def in_torch(device: str = "cpu") -> dict[str, np.ndarray]:
    import torch

    from conformix.kernels.device import elementary as on_device

    def there(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values).to(device)

    return {
        "exp": on_device.exp(there(exp_inputs())).cpu().numpy(),
        "log": on_device.log(there(log_inputs())).cpu().numpy(),
        "softmax": on_device.softmax(there(logits())).cpu().numpy(),
    }


def in_torch_on_cuda() -> dict[str, np.ndarray]:
    return in_torch("cuda")


FORMS = {"numpy": in_numpy, "numba": in_numba, "torch": in_torch, "cuda": in_torch_on_cuda}


def checksums(form: str) -> dict[str, str]:
    results = FORMS[form]()
    return {
        name: hashlib.sha256(values.astype("<f8").tobytes()).hexdigest()
        for name, values in results.items()
    }


if __name__ == "__main__":
    print(json.dumps(checksums(sys.argv[1])))
