"""Python's and numpy's random numbers in a captured step.

Where they are drawn while the step is captured, it is refused: the plan would have drawn once for all steps. What else of Python's values
a plan holds for is told by guards.py. Tests: tests/python/test_torch_numbers.py.
"""

from __future__ import annotations

import random
import sys
import zlib


class DrawnOnce(Exception):
    """Python's or numpy's random numbers were drawn while a step was captured."""


class Draws:
    """Whether Python's or numpy's random numbers are drawn after this was made."""

    def __init__(self) -> None:
        self.before, self.numpys = random.getstate()[1], self._numpys()
        self.place: str | None = None

    @staticmethod
    def _numpys() -> tuple:
        numpy = sys.modules.get("numpy")
        if numpy is None:
            return ()
        state = numpy.random.get_state()
        return (zlib.crc32(state[1].tobytes()), *state[2:])  # a seed puts other numbers there

    def look(self, place: str) -> None:
        """Notes the first place behind a draw of Python's, by the position in its stream: this is asked at each op."""
        if self.place is None and random.getstate()[1][-1] != self.before[-1]:
            self.place = place

    def check(self) -> None:
        """Raises where one was drawn."""
        if self.place is None and (random.getstate()[1] != self.before or self._numpys() != self.numpys):
            self.place = ""
        if self.place is not None:
            raise DrawnOnce(f"{self.place and f'before {self.place!r} '}numbers are drawn from Python's or numpy's random "
                            "generator, which would then stand for all steps; torch.rand draws in each")
