"""The methods that experiments compare, tuned and untuned, each a frozen dataclass.

Untuned methods calibrate on all calibration rows; tuned ones tune on the rows on which the
weights of the average are tuned. Every method says what it guarantees.
"""

from conformix.experiments.methods.names import Choices, method_names, resolve_method
from conformix.experiments.methods.task import Method, Outcome, Task

__all__ = ["Choices", "Method", "Outcome", "Task", "method_names", "resolve_method"]
