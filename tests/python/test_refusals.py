"""What is refused is refused in one line that names the file, the node and the thing that is missing, and `inspect` said so
before: its list holds what `plan` then stops at, and nothing of what `plan` takes."""

import pytest
from lowtide_cli import expect_error, run

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

GATES = [helper.make_tensor(name, TensorProto.DOUBLE, [1, 9, 3], [0.1 * i for i in range(27)]) for name in ("w", "r")]


def write(folder, nodes, inputs, initializers=(), opset=21):
    """Inputs: name, element type, dims. One output, y, of a type that is inferred."""
    graph = helper.make_graph(nodes, "made", [helper.make_tensor_value_info(*entry) for entry in inputs],
                              [onnx.ValueInfoProto(name="y")], list(initializers))
    path = folder / "made.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10).SerializeToString())
    return path


def node(op, inputs, **attributes):
    return helper.make_node(op, inputs, ["y"], name="here", **attributes)


X = ("x", TensorProto.FLOAT, [2, 3])
OTHER = ["FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT4E2M1", "INT4", "UINT4", "STRING", "COMPLEX64"]
SMALL = [kind for kind in OTHER if kind not in ("STRING", "COMPLEX64", "FLOAT4E2M1")]
CASES = {
    **{f"input {kind}": (dict(nodes=[node("Identity", ["x"])], inputs=[("x", TensorProto.DataType.Value(kind), [2])], opset=23),
                         [f"'x' is {kind}"]) for kind in OTHER},
    **{f"Cast to {kind}": (dict(nodes=[node("Cast", ["x"], to=TensorProto.DataType.Value(kind))], inputs=[X], opset=23),
                           ["'here' (Cast)", kind]) for kind in OTHER},
    **{f"CastLike {kind}": (dict(nodes=[node("CastLike", ["x", "t"])], inputs=[X],
                                 initializers=[helper.make_tensor("t", TensorProto.DataType.Value(kind), [1], [1])]),
                            ["'here' (CastLike)", "'t'", kind]) for kind in SMALL},
    **{f"{op} of opset {opset}": (dict(nodes=[node(op, ["x"], axis=axis)], inputs=[X], opset=opset),
                                  [f"'here' ({op})", f"axis {axis}", "rank 2"])
       for op, opset, axis in [("Softmax", 11, 5), ("LogSoftmax", 11, -3), ("Softmax", 13, 2), ("Hardmax", 11, 3)]},
    "op": (dict(nodes=[node("NonZero", ["x"])], inputs=[X]), ["NonZero", "here"]),
    "floats wanted": (dict(nodes=[node("Exp", ["x"])], inputs=[("x", TensorProto.UINT8, [2])]), ["'here' (Exp)", "u8", "float"]),
    "numbers wanted": (dict(nodes=[node("MatMul", ["x", "x"])], inputs=[("x", TensorProto.BOOL, [2, 2])]),
                       ["'here' (MatMul)", "bool"]),
}
TAKEN = {
    "Softmax of opset 11": dict(nodes=[node("Softmax", ["x"], axis=0)], inputs=[X], opset=11),
    "Relu of u16": dict(nodes=[node("Relu", ["x"])], inputs=[("x", TensorProto.UINT16, [4])]),
    "LeakyRelu of f64": dict(nodes=[node("LeakyRelu", ["x"])], inputs=[("x", TensorProto.DOUBLE, [4])]),
    "product of i64": dict(nodes=[node("MatMul", ["x", "x"])], inputs=[("x", TensorProto.INT64, [2, 2])]),
    "GRU of f64": dict(nodes=[node("GRU", ["x", "w", "r", "", "l"], hidden_size=3)], initializers=GATES,
                       inputs=[("x", TensorProto.DOUBLE, [4, 2, 3]), ("l", TensorProto.INT32, [2])]),
}


def unsupported(path) -> list[str]:
    lines = run("inspect", path).stdout.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("unsupported "))
    return [lines[first].removeprefix("unsupported "), *(line.strip() for line in lines[first + 1:])]


@pytest.mark.parametrize("name", CASES)
def test_inspect_says_what_plan_then_says(name, tmp_path):
    made, words = CASES[name]
    path = write(tmp_path, **made)
    line = expect_error(4, "made.onnx: ", *words, arguments=["plan", path])
    assert line.partition("made.onnx: ")[2].removeprefix("unsupported ops: ") in unsupported(path)


@pytest.mark.parametrize("name", TAKEN)
def test_what_inspect_takes_is_planned(name, tmp_path):
    path = write(tmp_path, **TAKEN[name])
    planned = run("plan", path)
    assert (planned.returncode == 0) == (unsupported(path) == ["none"]), planned.stderr
    if planned.returncode != 0:
        assert planned.returncode == 4 and "here" in planned.stderr


def test_dims_without_a_size_are_named_with_the_file(tmp_path):
    path = write(tmp_path, nodes=[node("Relu", ["x"])], inputs=[("x", TensorProto.FLOAT, ["n", "m", 3])])
    for command in ("plan", "sweep"):
        expect_error(2, "made.onnx: ", "dimensions: m, n;", "--dim m=1", arguments=[command, path])
        expect_error(2, "made.onnx: ", "dimensions: m;", "--dim m=1", arguments=[command, path, "--dim", "n=2"])
