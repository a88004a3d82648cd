#!/usr/bin/env python3
"""Writes decoders of the Llama family (Touvron et al. 2023, Dubey et al. 2024) as weight-free, trainable ONNX files.

    python models/llama.py --out DIR [name ...]                 (default: all)

    llama8b     8,030,261,248 parameters: 32 layers, width 4096, 32 heads that share 8 of keys and values, vocabulary 128,256
    llama1b     1,498,482,688: 16 layers of width 2048; its head is not the embedding
    llama_tiny  for tests

As in magis_networks.py no file is committed, as each takes a second to make, the same bytes every time, with `onnx` alone. Tokens of
one sequence (1, seq), rotary positions, RMS normalization before attention and before the gated network, no biases, no dropout.
Attention, rotary positions and the normalization are ONNX's own ops of opset 23, so attention is spelled out as the reader of files
does it: scores of all queries and keys, a causal mask, a softmax. The tables of rotary positions are inputs.
"""

import argparse
import dataclasses
import pathlib

import onnx
from magis_networks import IR_VERSION, Builder
from onnx import TensorProto, helper

OPSET = 23


@dataclasses.dataclass(frozen=True)
class Llama:
    layers: int
    width: int
    heads: int
    shared_heads: int  # of keys and values
    inner: int         # of the gated network
    vocabulary: int

    @property
    def head_width(self) -> int:
        return self.width // self.heads


NETWORKS = {
    "llama_tiny": Llama(layers=2, width=64, heads=4, shared_heads=2, inner=96, vocabulary=211),
    "llama1b": Llama(layers=16, width=2048, heads=32, shared_heads=8, inner=8192, vocabulary=128256),
    "llama8b": Llama(layers=32, width=4096, heads=32, shared_heads=8, inner=14336, vocabulary=128256),
}


def attention(net: Builder, x: str, of: Llama) -> str:
    def projected(name: str, heads: int) -> str:
        return net.op("MatMul", x, net.weight(f"attention.{name}", of.width, heads * of.head_width))

    def placed(name: str, heads: int) -> str:
        return net.op("RotaryEmbedding", projected(name, heads), "cos", "sin", num_heads=heads)

    mixed = net.op("Attention", placed("query", of.heads), placed("key", of.shared_heads), projected("value", of.shared_heads),
                   q_num_heads=of.heads, kv_num_heads=of.shared_heads, is_causal=1)
    return net.op("MatMul", mixed, net.weight("attention.output", of.width, of.width))


def gated(net: Builder, x: str, of: Llama) -> str:
    gate = net.op("MatMul", x, net.weight("gate", of.width, of.inner))
    gate = net.op("Mul", gate, net.op("Sigmoid", gate))
    return net.op("MatMul", net.op("Mul", gate, net.op("MatMul", x, net.weight("up", of.width, of.inner))),
                  net.weight("down", of.inner, of.width))


def normalized(net: Builder, x: str, name: str, of: Llama) -> str:
    return net.op("RMSNormalization", x, net.weight(name, of.width), axis=-1, epsilon=1e-5)


def model(name: str, of: Llama) -> onnx.ModelProto:
    net = Builder(name)
    net.graph.input.append(helper.make_tensor_value_info("tokens", TensorProto.INT64, (1, "seq")))
    for table in ("cos", "sin"):
        net.input(table, (1, "seq", of.head_width // 2))
    x = net.op("Gather", net.weight("embedding", of.vocabulary, of.width), "tokens")
    for layer in range(of.layers):
        net.scope = f"layer.{layer}"
        x = net.op("Add", x, attention(net, normalized(net, x, "attention.norm", of), of))
        x = net.op("Add", x, gated(net, normalized(net, x, "norm", of), of))
    net.scope = "head"
    x = net.op("MatMul", normalized(net, x, "norm", of), net.weight("weight", of.width, of.vocabulary))
    made = net.model(x, (1, "seq", of.vocabulary))
    return helper.make_model(made.graph, ir_version=IR_VERSION + 1, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="lowtide")


def write(name: str, folder: pathlib.Path) -> pathlib.Path:
    """Writes one network; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.onnx"
    path.write_bytes(model(name, NETWORKS[name]).SerializeToString(deterministic=True))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(NETWORKS))
    arguments = parser.parse_args()
    for name in arguments.names or NETWORKS:
        print(write(name, arguments.out))


if __name__ == "__main__":
    main()
