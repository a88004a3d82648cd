"""What the user's own code raises is his to see: a typo in loss_fn, a batch of another shape, a division by zero.

Tracing raises it, too, with tensors that have no contents, and cannot tell it from an error of its own. So where a step was refused for an
exception, loss_fn runs once as eager mode has it, without gradients kept: if that raises the same at the same line, it comes out as it is. All
that can be reached is put back behind it (contents.py); where that is too large to be kept, the step stays refused, with the exception's words.
Tests: tests/python/test_torch_own_errors.py.
"""

from __future__ import annotations

import contextlib
import logging
import os
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree

from .contents import LARGE, Contents, is_plain, span_bytes
from .this_thread import exchanged
from .untouched import Note


def raised_by_eager_mode(problem: BaseException, loss_fn: Callable, module: torch.nn.Module, parts: Sequence[Any], note: Note,
                         place_of: Callable[[BaseException], str]) -> Exception | None:
    """What loss_fn raises on these batches, if that is such a problem at the same line; None where it is not, or cannot be asked."""
    leaves = [leaf for leaf in pytree.tree_leaves(list(parts)) if isinstance(leaf, torch.Tensor)]
    tensors = [tensor for tensor in (*(noted.tensor for noted in note.tensors), *leaves) if is_plain(tensor)]
    refused = isinstance(problem, NotImplementedError) and _is_ours(problem)  # what eager mode may do and nobody could put back
    if not isinstance(problem, Exception) or refused or sum(map(span_bytes, {id(t): t for t in tensors}.values())) > LARGE:
        return None
    contents = Contents(note, tensors)
    try:
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(_forget, _forget):
            for part in parts:
                loss_fn(module, part)
    except Exception as raised:  # noqa: BLE001: that is the question
        same = type(raised) is type(problem) and place_of(raised) == place_of(problem)
        return raised if same and not _is_ours(raised) else None
    finally:
        contents.put_back()
    return None


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _is_ours(problem: BaseException) -> bool:
    """Whether one of PyTorch's functions raised it that is exchanged for another while this runs."""
    last = traceback.extract_tb(problem.__traceback__)[-1].filename
    return last.startswith(_PACKAGE) and last != __file__


def _forget(_: Any) -> None:
    """Nothing is kept for a backward pass that does not come."""


def not_written_down() -> contextlib.AbstractContextManager[None]:
    """Within, PyTorch does not write the traceback of an op that fails on tensors without contents to stderr: it comes out as an error."""
    return exchanged((logging.getLogger("torch._subclasses.fake_tensor"), "exception", lambda *_, **__: None))
