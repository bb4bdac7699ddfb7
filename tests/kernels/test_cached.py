"""Properties that are computed once: by threads side by side, and as `functools` has them."""

import re
import threading
from pathlib import Path

import pytest

from conformix.kernels.blocks import run_blocks
from conformix.kernels.cached import cached_property

SOURCE = Path(__file__).parents[2] / "src" / "conformix"


class Row:
    meeting = threading.Barrier(2)

    @cached_property
    def met(self) -> int:
        """Wait for the same property of another row."""
        return self.meeting.wait(timeout=10)


def test_two_threads_compute_a_property_of_their_own_objects_side_by_side() -> None:
    assert sorted(run_blocks(lambda row: row.met, [Row(), Row()], threads=2)) == [0, 1]


def test_a_property_is_computed_once_and_is_an_attribute_then() -> None:
    class Counted:
        calls = 0

        @cached_property
        def value(self) -> int:
            """Count the calls."""
            self.calls += 1
            return self.calls

    one = Counted()
    assert (one.value, one.value, one.calls, vars(one)["value"]) == (1, 1, 1, 1)
    del one.value
    assert one.value == 2
    assert Counted.value.__doc__ == "Count the calls."


def test_what_a_property_raises_is_raised_again() -> None:
    class Failing:
        @cached_property
        def value(self) -> int:
            raise ValueError("no")

    one = Failing()
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            _ = one.value


def test_no_module_has_the_property_whose_lock_all_objects_share() -> None:
    shared = re.compile("from functools import .*cached_property")
    files = [path for path in SOURCE.rglob("*.py") if path.name != "cached.py"]
    assert [path.name for path in files if shared.search(path.read_text("utf-8"))] == []
