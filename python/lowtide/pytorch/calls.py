"""The captured graph as calls on tensors that lie in storages.

What shares memory is read off the storages of the traced values, not off schemas: `_unsafe_view` returns its
input's storage and declares no alias. What is written is read off schemas, and for the norms that write their running
statistics without saying so, off a table (HIDDEN_WRITES of op_traits.py); measuring holds both against what the kernels really do
(measure.py).

    tensor    shape, strides and place in a storage; a view knows the call that makes it from another tensor
    storage   bytes, and what it is before the step: parameter, buffer, input, constant, or nothing (the step makes it)
    call      an ATen op on tensors; views compute nothing; in-place ops give the tensor that they wrote

`getitem` nodes vanish (a call has many outputs), `detach` and other views become recipes. A number
that the step reads off a tensor (`.item()`) is read again by each call that takes it, off a copy.
Equal pure calls become one, what nobody reads goes, and convolution_backward becomes one call for the data and one for the weights, which
add up to the same bits in the same time.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

from ..errors import Unsupported
from .devices import CPU, Cpu, Cuda
from . import ways_round
from .externals import External
from .op_traits import draws, hidden_writes, traits_of
from .schemas import schema_writes
from .trace import FORWARD, Trace

aten = torch.ops.aten
UNCOUNTED_WRITES = {aten._native_batch_norm_legit, aten._batch_norm_with_update}  # declared, but no version grows by them
# Where the weight stands, and what has a number for each dimension: stride, padding, dilation, output padding.
_CONVOLUTIONS = {aten.convolution.default: (1, (3, 4, 5, 7)), aten.convolution_backward.default: (2, (4, 5, 6, 8))}
PARAMETER, BUFFER, INPUT, CONSTANT, STATE, MADE = "parameter", "buffer", "input", "constant", "state", ""


@dataclass(frozen=True)
class Ref:
    """A tensor among the arguments of a call."""

    id: int


_LEAVES = {Ref, int, float, bool, str, complex, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format, torch.fx.Node}


class Number(NamedTuple):
    """A number among the arguments of a call, made when the call runs: `function(*args)`."""

    function: Callable
    args: tuple

    def __repr__(self) -> str:
        """The same in every process: entries of the cache go by it."""
        return f"Number({self.function.__name__}, {self.args!r})"


def mapped(change: Callable[[Any], Any], value: Any) -> Any:  # recursion: as deep as the lists of an op's schema
    """Arguments of an op with every leaf exchanged. Tuples, lists, dicts and numbers that are made when the call runs are the only
    containers there; a walk of PyTorch's own trees would take a third of the time of reading a graph."""
    kind = type(value)
    if kind in _LEAVES:
        return change(value)
    if kind is tuple:
        return tuple([change(entry) if type(entry) in _LEAVES else mapped(change, entry) for entry in value])
    if isinstance(value, Number):
        return Number(value.function, mapped(change, value.args))
    if isinstance(value, tuple):
        return tuple([mapped(change, entry) for entry in value])
    if isinstance(value, list):
        return [change(entry) if type(entry) in _LEAVES else mapped(change, entry) for entry in value]
    if isinstance(value, dict):
        return {key: mapped(change, entry) for key, entry in value.items()}
    return change(value)


def _refs(value: Any, found: list[int]) -> list[int]:  # recursion: as `mapped`
    """`found` with the tensors among an op's arguments, in order."""
    for entry in value:
        kind = type(entry)
        if kind is Ref:
            found.append(entry.id)
        elif kind is Number:
            _refs(entry.args, found)
        elif isinstance(entry, (tuple, list)):
            _refs(entry, found)
        elif isinstance(entry, dict):
            _refs(entry.values(), found)
    return found


@functools.cache
def _name_of(target: torch._ops.OpOverload) -> str:
    return str(target).replace(".default", "")


@dataclass
class Storage:
    """`base`: the tensor that brought it, of which all others in it are views."""

    id: int
    base: int
    bytes: int
    role: str = MADE
    name: str = ""
    start: int = 0  # of a given one: where its base begins, in elements


@dataclass
class Tensor:
    id: int
    storage: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    recipe: Call | None = None  # of a view: the call that makes it
    index: int = 0  # among the outputs of the recipe
    device: torch.device = CPU.device


@dataclass
class Call:
    """`outs`: tensors by position, None for what is no tensor. `many`: whether the op gives a tuple or list."""

    target: Callable
    args: tuple
    kwargs: dict[str, Any]
    outs: list[int | None]
    many: bool
    phase: str = FORWARD
    place: str = ""
    writes: tuple[int, ...] = ()  # tensors, by schema
    hidden: tuple[int, ...] = ()  # tensors, though the schema does not say so
    random: bool = False
    view: bool = False
    into: Callable | None = None  # the function that leaves the result where the first operand lies (parts.py)
    node: Any = None  # of the graph that was read
    said: Call | None = None  # the call that was traced, where this one makes what that did
    among: tuple = field(default=(), compare=False, repr=False)  # arguments, and the tensors that were found among them

    def tensors(self) -> list[int]:
        """The tensors among the arguments: a list that nobody changes."""
        if not self.among or self.among[0] is not self.args or self.among[1] is not self.kwargs:
            self.among = (self.args, self.kwargs, _refs((self.args, self.kwargs), []))
        return self.among[2]

    def with_tensors(self, change: Callable[[int], int]) -> tuple[tuple, dict[str, Any]]:
        """Arguments in which every tensor is exchanged."""
        def swap(leaf: Any) -> Any:
            return Ref(change(leaf.id)) if isinstance(leaf, Ref) else leaf

        return mapped(swap, self.args), mapped(swap, self.kwargs)

    def exchange(self, change: Callable[[int], int]) -> None:
        """The same of the call itself; nothing is made where no tensor changes, as in most calls."""
        if any(change(t) != t for t in self.tensors()):
            self.args, self.kwargs = self.with_tensors(change)

    @property
    def name(self) -> str:
        return _name_of(self.target) if isinstance(self.target, torch._ops.OpOverload) else self.target.__name__


def instead_of(call: Call, target: Callable, args: tuple, out: int) -> Call:
    return Call(target, args, {}, [out], False, call.phase, call.place)


@dataclass
class Program:
    """Calls in a valid order, what they work on, and what comes out: loss, aux, gradients or None."""

    tensors: list[Tensor] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    given: list[int] = field(default_factory=list)  # tensors in the order of the placeholders, then constants
    constants: list[torch.Tensor] = field(default_factory=list)
    externals: list[External | None] = field(default_factory=list)  # by constant: what was there before the step, and where
    outputs: list[int | None] = field(default_factory=list)
    judged: list[int] = field(default_factory=list)  # places in `outputs` of what says whether anything may be updated
    # Storages whose stand-ins hold ones: read as numbers, or asserted.
    ones: set[int] = field(default_factory=set)
    states: set[int] = field(default_factory=set)  # storages that the random stream's state is set from
    device: Cpu | Cuda = CPU  # that the step runs on
    layouts: Any = None  # where kernels were seen to put results otherwise than traced (layouts.py)
    state_bytes: int = 0  # of the optimizer's, where that is no operand of a call

    def storage_of(self, tensor: int) -> Storage:
        return self.storages[self.tensors[tensor].storage]

    def made_by(self, call: Call) -> list[int]:
        """What a call gives beside what it writes (rrelu writes its noise and gives a new tensor), and views."""
        written = {self.tensors[t].storage for t in call.writes}
        return [] if call.view else [o for o in call.outs if o is not None and self.tensors[o].storage not in written]

    def add_tensor(self, like: torch.Tensor | Tensor, storage: int | None, recipe: Call | None = None,
                   index: int = 0) -> int:
        """A tensor in a storage, or (None) in a new one."""
        if isinstance(like, Tensor):
            shape, stride, dtype = like.shape, like.stride, like.dtype
            size = self.storages[like.storage].bytes
        else:
            shape, stride, dtype = tuple(like.shape), tuple(like.stride()), like.dtype
            size = like.untyped_storage().nbytes()
        number = len(self.tensors)
        if storage is None:
            storage = len(self.storages)
            self.storages.append(Storage(storage, number, size))
        self.tensors.append(Tensor(number, storage, shape, stride, dtype, recipe, index, like.device))
        return number


@functools.cache
def functional(target: Any) -> Any:
    """The op that computes what an in-place one does, of the same operands, and writes nothing (`pow.Tensor_Scalar` for `pow_.Scalar`), or None."""
    library, name = target._schema.name.split("::")
    packet = getattr(getattr(torch.ops, library), name[:-1], None) if name.endswith("_") and not name.endswith("__") else None
    overloads = sorted(packet.overloads(), key=lambda overload: overload != target._overloadname) if packet is not None else []
    return next((f for f in (getattr(packet, overload) for overload in overloads) if _operands(f) == _operands(target) and not f._schema.is_mutable), None)


def _operands(target: Any) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in target._schema.arguments]


def one_number(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of the only element."""
    return tensor.detach().reshape(()).clone()


def _as_traced(node: torch.fx.Node, value: torch.Tensor) -> torch.Tensor:
    """What stood for a constant while its views were made: the node's own note of it lies in other memory."""
    noted = node.meta.get("val", value)
    return noted.fake_mode.from_tensor(value) if isinstance(noted, FakeTensor) else noted


def _as_view(call: Call, made: torch.Tensor) -> None:
    """A call that changed only its operand's geometry, as the view that it leaves."""
    other = functional(call.target)
    if other is not None:
        call.target = other
    else:  # its other form goes by another name, as swapaxes_ does
        call.target, call.kwargs = aten.as_strided.default, {}
        call.args = (call.args[0], list(made.shape), list(made.stride()), made.storage_offset())
    call.writes = ()


def rnn_layer_in_training(*arguments: Any) -> Any:
    """oneDNN's layer of an LSTM. What its backward pass needs it makes only where gradients are enabled."""
    with torch.enable_grad():
        return aten.mkldnn_rnn_layer(*(a.detach() if isinstance(a, torch.Tensor) else a for a in arguments))


class _Reader:
    """Goes over a graph once. `given`: role and name of each placeholder. `held`: the model's own tensors by address,
    with the placeholder's position: what the user's code reads of them past the model that it is called with."""

    def __init__(self, module: torch.fx.GraphModule, given: list[tuple[str, str]], places: dict[str, str],
                 held: dict[int, tuple[int, torch.Tensor]], trained: set[str], device: Cpu | Cuda,
                 externals: dict[str, External], apart: bool) -> None:
        self.module, self.given, self.places, self.program = module, given, places, Program(device=device)
        self.held, self.trained, self.externals, self.apart = held, trained, externals, apart
        self.of_node: dict[torch.fx.Node, Any] = {}  # a tensor's number, or a list of them
        self.by_key: dict[int, list[int]] = {}  # storages of a traced one, by address: several only where given ones stay apart
        self.alive: list[torch.Tensor] = []  # that no address is used twice

    def read(self) -> Program:
        nodes = list(self.module.graph.nodes)
        placeholders = [node for node in nodes if node.op == "placeholder"]
        for node, (role, name) in zip(placeholders, self.given, strict=True):
            self.take_given(node, node.meta["val"], role, name)
        for node in nodes:
            if node.op == "get_attr":
                value = getattr(self.module, node.target)
                if not isinstance(value, torch.Tensor):
                    raise Unsupported(f"{self.place(node)}: the graph holds a {type(value).__name__}")
                external = self.externals.get(node.target)
                if self.is_held(node, value, value.requires_grad if external is None else external.requires_grad):
                    continue
                self.program.constants.append(value)
                self.program.externals.append(external)
                self.alive.append(_as_traced(node, value) if external is None else external.fake)
                name = str(node.target) if external is None else external.name
                self.take_given(node, self.alive[-1], CONSTANT, name)
            elif node.op == "call_function":
                self.take_call(node)
            elif node.op == "output":
                leaves = pytree.tree_leaves(node.args[0], is_leaf=lambda x: x is None)
                self.program.outputs = [self.of_node[leaf] if isinstance(leaf, torch.fx.Node) else None
                                        for leaf in leaves]
        return self.program

    def place(self, node: torch.fx.Node) -> str:
        return self.places.get(node.name, "") or f"node '{node.name}'"

    def is_held(self, node: torch.fx.Node, value: torch.Tensor, requires_grad: bool) -> bool:
        """Whether a constant is a tensor of the model, which a step may write. Raises Unsupported where it was to have a
        gradient by this way, or is a part of one."""
        if isinstance(value, FakeTensor):
            raise Unsupported(f"{self.place(next(iter(node.users), node))}: a tensor of the step comes here past PyTorch's ops (by as_subclass, by "
                              "another thread, under a mode of PyTorch's that exchanges tensors, as `.grad` of a tensor of the batch), so no op is seen "
                              "that makes it; view_as in the place of as_subclass, x.grad = None before the step and torch.autograd.grad within it, and "
                              "steps compiled outside of such modes, are planned")
        position, whole = self.held.get(value.untyped_storage().data_ptr(), (-1, value))
        if position < 0 or not value.numel():
            return False
        role, name = self.given[position]
        same = (value.shape, value.stride(), value.dtype) == (whole.shape, whole.stride(), whole.dtype)
        if (name in self.trained and requires_grad) or (not same and (name in self.trained or role == BUFFER)):
            where = self.place(next(iter(node.users), node))
            if not requires_grad:
                raise Unsupported(f"{where}: a tensor {tuple(value.shape)} beside the parameters lies in the memory of '{name}', which the step writes (both are "
                                  "parts of one flat tensor, say); a buffer with memory of its own (.clone()), or a part of the parameter itself, is planned")
            raise Unsupported(f"{where}: '{name}' comes from elsewhere than the model "
                              "that loss_fn is called with, so it would get no gradient by this; take it from that model")
        if same:
            self.of_node[node] = self.program.given[position]
        return same

    def take_given(self, node: torch.fx.Node, value: torch.Tensor, role: str, name: str) -> None:
        self.check_device(self.place(node), f"'{name}'", value)
        there = self.by_key.setdefault(value.untyped_storage()._cdata, [])
        if there and not self.apart:
            number = self.shared(value, there[0])
        else:
            number = self.program.add_tensor(value, None)
            storage = self.program.storage_of(number)
            storage.role, storage.name, storage.start = role, name, value.storage_offset()
            there.append(storage.id)
        self.program.given.append(number)
        self.of_node[node] = number

    def shared(self, value: torch.Tensor, storage: int) -> int:
        """A given tensor in the memory of another: that one, or a view of it."""
        base = self.program.tensors[self.program.storages[storage].base]
        place = (tuple(value.shape), tuple(value.stride()), value.storage_offset())
        if (base.shape, base.stride, self.program.storages[storage].start) == place and base.dtype == value.dtype:
            return base.id
        if base.dtype != value.dtype:
            raise Unsupported(f"two tensors of {base.dtype} and {value.dtype} share memory before the step")
        args = (Ref(base.id), *map(list, place[:2]), place[2])
        recipe = Call(aten.as_strided.default, args, {}, [], False, view=True)
        recipe.outs = [self.program.add_tensor(value, storage, recipe)]
        return recipe.outs[0]

    def take_call(self, node: torch.fx.Node) -> None:
        if node.target is operator.getitem:
            self.of_node[node] = self.of_node[node.args[0]][node.args[1]]
            return
        if isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool, bool)):
            if not isinstance(node.target, torch._ops.OpOverload):
                self.of_node[node] = Number(node.target, self.arguments(node)[0])
                return
        if not isinstance(node.target, torch._ops.OpOverload):
            raise Unsupported(f"{self.place(node)}: {node.target} is no ATen op")
        if (node.kwargs.get("generator") is not None):
            raise Unsupported(f"{self.place(node)}: {node.target} draws from a generator of its own")

        traits = traits_of(node.target)
        if traits.static:
            return
        args, kwargs = self.arguments(node)
        args = self.for_each_dimension(node.target, args)
        if traits.writes and self.keeps_size(node, args, kwargs):
            self.of_node[node] = args[0].id
            return
        if node.target is aten._local_scalar_dense.default:
            self.of_node[node] = self.number_in(node, args[0])
            return
        if traits.asserts:
            self.note_ones(args)
        call = Call(node.target, args, kwargs, [], False, node.meta.get("lowtide_phase", FORWARD), self.place(node))
        if traits.writes:
            call.writes = tuple(w.id for w in schema_writes(node.target, args, kwargs))
        if traits.hides_writes:
            call.hidden = tuple(w.id for w in hidden_writes(node.target, args))
        if node.target is torch.ops.lowtide.set_random_state.default:
            self.program.states.add(self.program.tensors[args[0].id].storage)
        call.random, call.node = traits.may_draw and draws(node.target, args, kwargs), node
        if call.writes and traits.changes_geometry:  # t_, squeeze_: only the geometry changes
            _as_view(call, node.meta["val"])
        if node.target is aten.mkldnn_rnn_layer.default:
            call.target = rnn_layer_in_training
        self.take_outputs(node, call)
        if call.random:
            self.check_draw(node, call)
        self.program.calls.append(call)

    def arguments(self, node: torch.fx.Node) -> tuple[tuple, dict[str, Any]]:
        def ref(leaf: Any) -> Any:
            if not isinstance(leaf, torch.fx.Node):
                return leaf
            found = self.of_node[leaf]
            return Ref(found) if isinstance(found, int) else found

        return mapped(ref, node.args), mapped(ref, node.kwargs) if node.kwargs else {}

    def keeps_size(self, node: torch.fx.Node, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Whether it is a `resize_` to the size that is there. Raises Unsupported for what gives a tensor of before the step another one."""
        written = [w.id for w in schema_writes(node.target, args, kwargs) if isinstance(w, Ref)]
        resizes = node.target is aten.resize_.default and isinstance(args[0], Ref)
        if resizes and self.program.tensors[args[0].id].shape == tuple(args[1]):
            return True
        # Where an op writes its result into an operand without elements, that one gets the result's size: `out=`, observers.
        first = args[0].id if args and isinstance(args[0], Ref) else -1
        for number in written:
            storage, empty = self.program.storage_of(number), 0 in self.program.tensors[number].shape
            if storage.role != MADE and (resizes or (empty and number != first)):
                raise Unsupported(f"{self.place(node)}: {node.target} gives '{storage.name}' {self.program.tensors[number].shape} another size, which lives "
                                  "longer than the step; run one batch through the model before the step is compiled (model(x), in train mode), "
                                  "or give the tensor its size where it is made")
        return False

    def for_each_dimension(self, target: Any, args: tuple) -> tuple:
        """The arguments of a convolution with a number for each dimension: PyTorch takes one for all, as padding="valid" gives it."""
        weight, positions = _CONVOLUTIONS.get(target, (0, ()))
        if not positions:
            return args
        dimensions = len(self.program.tensors[args[weight].id].shape) - 2
        return tuple(list(value) * dimensions if k in positions and len(value) == 1 else value for k, value in enumerate(args))

    def check_draw(self, node: torch.fx.Node, call: Call) -> None:
        """All draws of a step are from one stream: its device's."""
        device = self.program.device
        for tensor in (self.program.tensors[o] for o in call.outs if o is not None):
            if tensor.device.type != device.type and node.target.namespace != "lowtide":
                raise Unsupported(f"{self.place(node)}: {node.target} draws on {tensor.device} in a step on {device.device}")

    def number_in(self, node: torch.fx.Node, read: Ref) -> Number:
        """What a tensor holds here: whatever is written to it later, the copy stays."""
        like = self.program.tensors[read.id]
        made = self.program.add_tensor(like, None)
        self.program.storages[-1].bytes = like.dtype.itemsize
        self.program.tensors[made].shape = self.program.tensors[made].stride = ()
        phase = node.meta.get("lowtide_phase", FORWARD)
        self.program.calls.append(
            Call(one_number, (read,), {}, [made], False, phase, self.place(node)))
        number = Number(torch.Tensor.item, (Ref(made),))
        self.note_ones(number)
        return number

    def note_ones(self, arguments: Any) -> None:
        self.program.ones |= {self.program.tensors[t].storage for t in _refs((arguments,), [])}

    def take_outputs(self, node: torch.fx.Node, call: Call) -> None:
        value = node.meta.get("val")
        call.many = isinstance(value, (list, tuple))
        values = list(value) if call.many else [value] if isinstance(value, torch.Tensor) else []
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        if any(v.layout is not torch.strided for v in tensors):
            raise Unsupported(f"{self.place(node)}: {node.target} makes a sparse tensor, which has no place in a plan; "
                              "an embedding with sparse=False has dense gradients, index_add and scatter_add take indices and values")
        if any(type(n) is torch.SymInt for v in tensors for n in v.shape):
            raise Unsupported(f"{self.place(node)}: {node.target} makes a tensor whose shape "
                              f"depends on the contents of another{ways_round.of_shape(node.target._schema.name.partition('::')[2])}")
        aliases = [self.alias(call, v) if isinstance(v, torch.Tensor) else None for v in values]
        if node.target is aten.lift_fresh_copy.default:  # of torch.tensor([..]): noted in the constant's memory, yet a copy
            aliases = [None]
        there = [a is not None for v, a in zip(values, aliases, strict=True) if isinstance(v, torch.Tensor)]
        call.view = bool(there) and all(there) and not call.writes
        if any(there) and not call.writes and not all(there):
            raise Unsupported(f"{self.place(node)}: {node.target} gives views and new tensors at once")
        for index, (made, storage) in enumerate(zip(values, aliases, strict=True)):
            call.outs.append(self.output(call, index, made, storage))
        self.of_node[node] = call.outs if call.many else call.outs[0] if call.outs else None

    def alias(self, call: Call, made: torch.Tensor) -> int | None:
        """The storage that an output shows. Where traced ones that stay apart had the same memory: the first operand's of these."""
        found = self.by_key.get(made.untyped_storage()._cdata, [])
        if len(found) <= 1:
            return found[0] if found else None
        return next((s for s in (self.program.tensors[t].storage for t in call.tensors()) if s in found), None)

    def check_device(self, where: str, what: str, tensor: torch.Tensor) -> None:
        """On the step's device, or on the CPU."""
        if tensor.device.type not in ("cpu", "meta") and tensor.device != self.program.device.device:
            raise Unsupported(f"{where}: {what} is on {tensor.device}, the step on {self.program.device.device}")

    def output(self, call: Call, index: int, made: Any, storage: int | None) -> int | None:
        if not isinstance(made, torch.Tensor):
            return None
        self.check_device(call.place, f"what {call.name} makes", made)
        if call.writes and storage is not None:  # the tensor that was written
            return next(w for w in call.writes if self.program.tensors[w].storage == storage)
        number = self.program.add_tensor(made, storage, call if storage is not None else None, index)
        if storage is None:
            self.by_key[made.untyped_storage()._cdata] = [self.program.tensors[number].storage]
        return number


def _split_convolutions(program: Program) -> None:
    """convolution_backward of data and weights becomes two calls; the bias goes with the weights."""
    split: list[Call] = []
    for call in program.calls:
        mask = call.args[-1] if call.target is aten.convolution_backward.default else None
        if mask is None or not (mask[0] and any(mask[1:])):
            split.append(call)
            continue
        for kept in ([True, False, False], [False, *mask[1:]]):
            outs = [out if keep else None for out, keep in zip(call.outs, kept, strict=True)]
            split.append(Call(call.target, (*call.args[:-1], kept), call.kwargs, outs, True, call.phase, call.place))
    program.calls = split


def _frozen(value: Any) -> Any:
    """A hashable that tells values apart as kernels do: 1 and 1.0 and True differ."""
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(v) for v in value)
    if isinstance(value, dict):
        return tuple(sorted((k, _frozen(v)) for k, v in value.items()))
    return value if isinstance(value, Ref) else (type(value).__name__, repr(value))


def _merge_equal(program: Program) -> None:
    """Calls that compute the same of the same become one. Not what is written in place, or draws."""
    written = {program.tensors[t].storage for call in program.calls for t in (*call.writes, *call.hidden)}
    now: dict[int, int] = {}
    seen: dict[Any, Call] = {}
    kept: list[Call] = []
    for call in program.calls:
        call.exchange(lambda t: now.get(t, t))
        touched = {program.tensors[t].storage for t in [*call.tensors(), *(o for o in call.outs if o is not None)]}
        if call.writes or call.hidden or call.random or touched & written or not call.outs:
            kept.append(call)
            continue
        key = (call.target, _frozen(call.args), _frozen(call.kwargs))
        first = seen.setdefault(key, call)
        if first is call:
            kept.append(call)
            continue
        for mine, its in zip(call.outs, first.outs, strict=True):
            if mine is not None and its is not None:
                now[mine] = its
    program.calls = kept
    program.outputs = [now.get(o, o) if o is not None else None for o in program.outputs]
    _move_views(program, now)


def _move_views(program: Program, now: dict[int, int]) -> None:
    """Views of what was exchanged lie in what it was exchanged for."""
    for call in program.calls:
        if not call.view:
            continue
        source = call.tensors()[0]
        for out in call.outs:
            if out is not None:
                program.tensors[out].storage = program.tensors[now.get(source, source)].storage


def read_graph(module: torch.fx.GraphModule, given: list[tuple[str, str]], places: dict[str, str],
               held: dict[int, tuple[int, torch.Tensor]] | None = None, trained: Iterable[str] = (),
               device: Cpu | Cuda = CPU, externals: dict[str, External] | None = None, apart: bool = False) -> Program:
    """The calls of any graph of ATen ops, as they stand there. `apart`: whether given tensors that had the same memory when the graph
    was traced need not have it when it runs, so that none is read by another's name."""
    return _Reader(module, given, places, held or {}, set(trained), device, externals or {}, apart).read()


def read_as_traced(trace: Trace) -> Program:
    """The calls of the graph, each as it stands there. Raises Unsupported, naming the line, for what has no place in a plan."""
    names = [(PARAMETER, name) for name in trace.model.parameters] + [(BUFFER, name) for name in trace.model.buffers]
    more = sum(node.op == "placeholder" for node in trace.module.graph.nodes) - len(names)
    names += [(INPUT, f"batch.{i}") for i in range(more)]
    tensors = [*trace.model.parameters.values(), *trace.model.buffers.values()]
    held = {t.untyped_storage().data_ptr(): (i, t) for i, t in enumerate(tensors) if t.numel()}
    return read_graph(trace.module, names, trace.places, held, trace.trained, trace.model.device, trace.externals)


def read_calls(trace: Trace) -> Program:
    """The same, with convolutions in two and what is equal once."""
    program = read_as_traced(trace)
    program.layouts = trace.layouts
    _split_convolutions(program)
    _merge_equal(program)
    return program
