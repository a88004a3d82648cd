"""Batch norm in passes, so that a step can be cut along its samples: statistics as sums to which parts add, then what
is done with them (src/rewrite/batch_norm.h does so to graphs of our own).

    forward     the sum of x; the sum of squares of x - mean; y by these, as in evaluation; the running statistics
    gradient    of scale and shift as sums; then that of x, which is linear in dy and x, channel by channel

The variance is that of two passes, never a difference of large numbers: a part's own mean and variance, which PyTorch's
kernel finds in one go, give its squares about the mean of all. Sums are taken in another order than in eager mode.
"""

from __future__ import annotations

import collections

import torch

from .calls import Call, Program, Ref, instead_of

aten = torch.ops.aten


def squares_about(x: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """The sum of (x - mean)**2 of each channel."""
    own, variance = aten.batch_norm_update_stats.default(x, None, None, 0.0)
    return (variance + (own - mean) ** 2) * (x.numel() // x.shape[1])


def note_statistics(mean_so_far: torch.Tensor, variance_so_far: torch.Tensor, mean: torch.Tensor,
                    variance: torch.Tensor, momentum: float) -> None:
    """One write each, as step.py counts them."""
    mean_so_far.lerp_(mean, momentum)
    variance_so_far.lerp_(variance, momentum)


def gradient_of_x(gradient: torch.Tensor, x: torch.Tensor, scale: torch.Tensor | None, mean: torch.Tensor, inverse: torch.Tensor,
                  of_scale: torch.Tensor, of_shift: torch.Tensor, count: int) -> torch.Tensor:
    along = (1, -1, *[1] * (x.dim() - 2))
    a = inverse if scale is None else inverse * scale
    b = -a * inverse * of_scale / count
    c = -a * of_shift / count - b * mean
    return (gradient * a.view(along)).addcmul_(x, b.view(along)).add_(c.view(along))


def in_passes(program: Program) -> None:
    """Exchanges the calls. What is of 16 bits, whose sums have no room in them, stays, and so does a norm that runs twice in the step:
    the planner writes each state once."""
    times = collections.Counter(program.tensors[t].storage for call in program.calls for t in call.hidden)
    calls: list[Call] = []
    for call in program.calls:
        again = any(times[program.tensors[t].storage] > 1 for t in call.hidden)
        calls += (_forward(program, call) if not again else []) or _backward(program, call) or [call]
    program.calls = calls


def _count(program: Program, x: Ref) -> int:
    shape = program.tensors[x.id].shape
    return torch.Size(shape).numel() // shape[1]


def _vector(program: Program, like: int) -> int:
    return program.add_tensor(program.tensors[like], None)


def _forward(program: Program, call: Call) -> list[Call]:
    if call.target is not aten.native_batch_norm.default or not call.args[5]:
        return []
    x, scale, shift, mean_so_far, variance_so_far, _, momentum, eps = call.args
    y, mean, inverse = call.outs
    count = _count(program, x)
    if None in (y, mean, inverse) or count < 2 or len({program.tensors[t].dtype for t in (x.id, mean)}) > 1:
        return []
    total, squares, variance = (_vector(program, mean) for _ in range(3))
    shifted = _vector(program, mean)
    dims = [d for d in range(len(program.tensors[x.id].shape)) if d != 1]
    made = [
        instead_of(call, aten.sum.dim_IntList, (x, dims), total),
        instead_of(call, aten.div.Scalar, (Ref(total), count), mean),
        instead_of(call, squares_about, (x, Ref(mean)), squares),
        instead_of(call, aten.div.Scalar, (Ref(squares), count), variance),
        instead_of(call, aten.add.Scalar, (Ref(variance), eps), shifted),
        instead_of(call, aten.rsqrt.default, (Ref(shifted),), inverse),
        Call(aten.native_batch_norm.default, (x, scale, shift, Ref(mean), Ref(variance), False, 0.0, eps), {},
             [y, None, None], True, call.phase, call.place)]
    if call.hidden:
        unbiased = _vector(program, mean)
        given = (mean_so_far, variance_so_far, Ref(mean), Ref(unbiased), momentum)
        made.append(instead_of(call, aten.div.Scalar, (Ref(squares), count - 1), unbiased))
        made.append(Call(note_statistics, given, {}, [], False, call.phase, call.place, writes=call.hidden))
    return made


def _backward(program: Program, call: Call) -> list[Call]:
    if call.target is not aten.native_batch_norm_backward.default or not call.args[7]:
        return []
    gradient, x, scale, _, _, mean, inverse, _, eps, mask = call.args
    if len({program.tensors[t.id].dtype for t in (gradient, x, mean)}) > 1:
        return []
    of_scale, of_shift = (o if o is not None else _vector(program, mean.id) for o in call.outs[1:])
    sums = Call(call.target, (gradient, x, scale, None, None, mean, inverse, True, eps, [False, True, True]), {},
                [None, of_scale, of_shift], True, call.phase, call.place)
    if not mask[0]:
        return [sums]
    given = (gradient, x, scale, mean, inverse, Ref(of_scale), Ref(of_shift), _count(program, x))
    return [sums, instead_of(call, gradient_of_x, given, call.outs[0])]
