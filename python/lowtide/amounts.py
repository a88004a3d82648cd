"""Sizes, budgets and speeds as users write them, in the words of the command line
(src/base/bytes.h, src/api/budgets.h).

The library reads them, too, but only when there is something to plan: what is misspelt should be
refused before a step is captured and measured. tests/python/test_torch_options.py holds these
readers against the library's.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, NamedTuple

MOST_BYTES = 1 << 62
_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
          "KB": 10**3, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_SHARE = r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?"


def bytes_of(text: str) -> int | None:
    """The bytes of a size such as "1.5GiB", rounded down; None: that is none."""
    said = re.fullmatch(r"([0-9]{1,60})(\.[0-9]{1,60})? *([A-Za-z]*)", text)
    if said is None or said[3] not in _UNITS or (said[2] and _UNITS[said[3]] == 1):
        return None
    found = int(Fraction(said[1] + (said[2] or "")) * _UNITS[said[3]])
    return found if found <= MOST_BYTES else None


class Amount(NamedTuple):
    """A budget: bytes, or a share of what the best order needs; neither: the least that is found ("floor")."""

    bytes: int | None = None
    share: float | None = None

    def limit(self, best: int) -> int | None:
        """In bytes, if the best order needs `best`; None for the least that can be."""
        return int(best * self.share) if self.share is not None else self.bytes


def amount_of(budget: Any) -> Amount | None:
    """None: that is no budget."""
    if isinstance(budget, int):
        is_size = not isinstance(budget, bool) and 0 < budget <= MOST_BYTES
        return Amount(bytes=budget) if is_size else None
    if not isinstance(budget, str):
        return None
    text = budget.strip(" ")
    if text == "floor":
        return Amount()
    if text.endswith("%"):
        number = text[:-1].strip(" ")
        share = float(number) / 100 if re.fullmatch(_SHARE, number) else 0
        return Amount(share=share) if 0 < share <= 1 else None
    size = bytes_of(text)
    return Amount(bytes=size) if size else None


def speed_of(link: Any) -> float | None:
    """Bytes a second of a number or of "12GiB/s"; None: that is no speed above 0."""
    if isinstance(link, str):
        link = (bytes_of(link.removesuffix("/s")) if link.endswith("/s") else None) or 0
    is_number = isinstance(link, (int, float)) and not isinstance(link, bool)
    return float(link) if is_number and 0 < link < float("inf") else None
