"""Which tensors of a step are one tensor under several names, so that the generated code makes one of them.

Tracing leaves chains of views that end where they began: `detach` of a result, twice for a gradient; a weight transposed for the forward
pass and back for the backward pass; a result taken to more dimensions and, by the next layer, back to two. Making a view takes a
microsecond or two, in small steps as long as a kernel.

Two views of one tensor are the same one if each op between them keeps the place of the first element, what the elements mean and the
memory, and shape and strides are equal. Where a step runs in parts, strides of views are not those that were traced: there only
`detach` and `alias` are looked through (`by_strides`). Outputs keep their names, as the caller may tell them apart. What is there
before the step stands for its views only where all that read it is known to do the same with a tensor that requires a gradient, as a
parameter does and its views do not (`_PLAIN`).

Tests: tests/python/test_torch_one_name.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .calls import MADE, Program, Ref

aten = torch.ops.aten
_SAME = {aten.detach.default, aten.alias.default}
_IN_PLACE = _SAME | {aten.t.default, aten.transpose.int, aten.permute.default, aten.view.default, aten._unsafe_view.default, aten.expand.default,
                     aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default}
# Ops whose kernels ask nothing of a tensor but its elements, where gradients are not enabled.
_PLAIN = {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default, aten.embedding.default, aten.convolution.default,
          aten.native_layer_norm.default, aten.native_layer_norm_backward.default, aten.native_group_norm.default,
          aten.native_group_norm_backward.default, aten.convolution_backward.default, aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor}


class OneName:
    """`by_strides`: strides of views are those that were traced."""

    def __init__(self, program: Program, by_strides: bool) -> None:
        self.program, self.through = program, _IN_PLACE if by_strides else _SAME
        self.kept = {o for o in program.outputs if o is not None}
        self.found: dict[int, int] = {}
        self.asked: set[int] | None = None  # storages that other ops read than plain ones

    def of(self, tensor: int) -> int:
        """The tensor that stands for this one: the first along its chain of views that is the same."""
        if tensor not in self.found:
            same = [t for t in self._chain(tensor) if self._geometry(t) == self._geometry(tensor) and self._may_stand(t)]
            self.found[tensor] = same[-1] if same else tensor
        return self.found[tensor]

    def _chain(self, tensor: int) -> Iterator[int]:
        """What it is a view of, what that is a view of, and so on, as long as the first element stays where it is."""
        while tensor not in self.kept:
            recipe = self.program.tensors[tensor].recipe
            if recipe is None or recipe.target not in self.through or not recipe.args or not isinstance(recipe.args[0], Ref):
                return
            below = recipe.args[0].id
            if self.program.tensors[below].storage != self.program.tensors[tensor].storage:
                return
            tensor = below
            yield tensor

    def _geometry(self, tensor: int) -> tuple:
        found = self.program.tensors[tensor]
        return found.shape, found.stride, found.dtype, found.device

    def _may_stand(self, tensor: int) -> bool:
        """Whether others may go by its name."""
        if self.program.tensors[tensor].recipe is not None or self.program.storage_of(tensor).role == MADE:
            return True
        if self.through is not _IN_PLACE:
            return False
        if self.asked is None:
            recipes = (t.recipe for t in self.program.tensors if t.recipe is not None and t.recipe.target not in _IN_PLACE)
            calls = (call for call in self.program.calls if not call.view and call.target not in _PLAIN)
            self.asked = {self.program.tensors[t].storage for call in (*recipes, *calls) for t in call.tensors()}
        return self.program.tensors[tensor].storage not in self.asked
