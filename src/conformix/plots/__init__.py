"""Pictures (matplotlib): a function for the numbers, a function for the ink.

No global style is touched and nothing is shown; every plot returns its axes.
"""

from conformix.plots.triangle import near_optimal, plot_triangle, triangle_points

__all__ = ["near_optimal", "plot_triangle", "triangle_points"]
