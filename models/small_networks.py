#!/usr/bin/env python3
"""Writes small networks of the kinds of magis_networks.py and nasnet.py, whose training steps a naive interpreter computes at once.

    python models/small_networks.py [--out DIR]                          (default: tests/data/models)

Each has the structure of its large one at a few layers, channels and positions; like those it has no weights, and the bytes are
the same every time. GPT-Neo and BTLM are one structure of more or fewer layers and heads, as MAGIS builds them.
"""

import argparse
import pathlib
from collections.abc import Callable

import nasnet
import onnx
from magis_networks import transformer, unet_plus_plus

FOLDER = pathlib.Path(__file__).parents[1] / "tests/data/models"

NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "vit": lambda: transformer("vit", layers=2, hidden=8, heads=2, sequence=4, classes=5),
    "gptneo": lambda: transformer("gptneo", layers=2, hidden=8, heads=2, sequence="seq"),
    "btlm": lambda: transformer("btlm", layers=3, hidden=12, heads=4, sequence="seq"),
    "unetpp": lambda: unet_plus_plus("unetpp", with_norm=False, extent=8, width=2, levels=3),
    "unetpp_bn": lambda: unet_plus_plus("unetpp_bn", with_norm=True, extent=8, width=2, levels=3),
    "nasnet0": lambda: nasnet.network(0, nasnet.Size(extent=8, filters=2, stacks=2, cells=1)),
    "nasnet3": lambda: nasnet.network(3, nasnet.Size(extent=8, filters=2, stacks=2, cells=1)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=FOLDER)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in NETWORKS.items():
        model = make()
        data = model.SerializeToString(deterministic=True)
        (folder / f"{name}.onnx").write_bytes(data)
        print(f"{folder / name}.onnx: {len(model.graph.node)} nodes, {len(data)} bytes")


if __name__ == "__main__":
    main()
