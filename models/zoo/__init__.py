"""Small networks with real structures, made when a test or benchmark runs: what people bring, in many exporters' styles.

    from zoo import ZOO            # with models/ on the path; models/export.py writes them as files

Each has random values of its own, the same everywhere, and runs in milliseconds. `spec.py` says what an entry is.
"""

from . import classification, dense, foreign, quantized, sequence, tables, text, vision_transformers
from .spec import Entry, Feed

FAMILIES = (classification, vision_transformers, dense, sequence, text, tables, foreign, quantized)
ZOO: dict[str, Entry] = {name: entry for family in FAMILIES for name, entry in family.NETWORKS.items()}

__all__ = ["ZOO", "Entry", "Feed"]
