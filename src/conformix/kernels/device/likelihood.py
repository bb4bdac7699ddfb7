"""The likelihood of labels under a blend, with its derivatives, on a device.

Sums come out in the order that the device likes: what is made of them must not hang on last bits.
"""

from __future__ import annotations

from typing import Any

from conformix.kernels.arrays import FloatArray, to_device, to_host


def likelihood(planes: Any, c: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Return ``sum_i log sum_y exp(z_iy)`` of planes (p, n, K), ``z = c . planes``, on the host.

    And its derivatives by c, (p,) and (p, p).
    """
    p = len(planes)
    z = (to_device(c, planes)[None, :] @ planes.reshape(p, -1)).reshape(planes.shape[1:])
    top = z.amax(1, keepdim=True)
    shares = (z - top).exp_()
    sums = shares.sum(1, keepdim=True)
    value = float((top + sums.log()).sum())
    weighted = planes * (shares / sums)
    means = weighted.sum(2)
    second = weighted.reshape(p, -1) @ planes.reshape(p, -1).T - means @ means.T
    return value, to_host(means.sum(1)), to_host(second)
