#!/usr/bin/env python3
"""Every small network of tests/python/pt2_networks.py through the door of exported programs (.pt2): results and a whole
training step beside PyTorch's in f64, without a budget and within one. Fails where one is wrong.

    scripts/bench pt2                       or bench/pt2.py [NETWORK ...]
"""

import pathlib
import sys

for folder in ("tests/python", "models"):
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / folder))

import pt2_judge  # noqa: E402  (a path of the repository, not a package)

if __name__ == "__main__":
    sys.exit(pt2_judge.main(sys.argv[1:]))
