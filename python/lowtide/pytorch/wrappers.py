"""Models and optimizers in the wrappers of other libraries.

accelerate's and Lightning's optimizers stand before the user's: their `step()` synchronises, scales and counts. A planned step has its own
update, so it takes what they wrap (`.optimizer`, as both document it), and refuses by name what they would have done beside it: a
gradient scaler, accumulation, callbacks, more than one device. Neither package is imported: their classes are told by name.

Models stay in their wrappers, whose forward pass is traced as it is: Fabric's, DataParallel on one device, adapters. Those that spread
over several devices are refused. What torch.compile made of a module is the module itself: nothing else is compiled in a planned step.

Tests: tests/python/test_torch_wrappers.py.
"""

from __future__ import annotations

from typing import Any

import torch

from ..errors import Unsupported

_OPTIMIZERS = {"AcceleratedOptimizer": ("accelerate",), "LightningOptimizer": ("lightning", "pytorch_lightning"),
               "_FabricOptimizer": ("lightning", "lightning_fabric")}
_ONE_DEVICE = "SingleDeviceStrategy"


def _wrapper(thing: Any) -> str:
    """The name of the wrapper's class, which may be a base of one that was made for this object; "" of what is none."""
    for kind in type(thing).__mro__:
        if kind.__module__.partition(".")[0] in _OPTIMIZERS.get(kind.__name__, ()):
            return kind.__name__
    return ""


def optimizer_in(optimizer: Any) -> Any:
    """The optimizer that a wrapper stands before, or the one given. Raises Unsupported for what the wrapper adds to it."""
    name = _wrapper(optimizer)
    while name:
        (_check_accelerate if name == "AcceleratedOptimizer" else _check_lightning)(optimizer, name)
        optimizer = optimizer.optimizer
        name = _wrapper(optimizer)
    return optimizer


def _check_accelerate(optimizer: Any, name: str) -> None:
    if getattr(optimizer, "scaler", None) is not None:
        _refuse_scaler(name)
    steps = getattr(getattr(optimizer, "gradient_state", None), "num_steps", 1)
    if steps > 1:
        raise Unsupported(f"{name} updates once in {steps} calls (gradient_accumulation_steps={steps}), and a planned step once in each; "
                          f"accumulate={steps}, with a list of {steps} batches, makes one update of {steps}")


def _check_lightning(optimizer: Any, name: str) -> None:
    strategy = getattr(optimizer, "_strategy", None)
    precision = getattr(strategy, "precision", None) or getattr(strategy, "precision_plugin", None)
    if getattr(precision, "scaler", None) is not None:
        _refuse_scaler(name)
    if strategy is not None and not any(kind.__name__ == _ONE_DEVICE for kind in type(strategy).__mro__):
        raise Unsupported(f"{name} updates by {type(strategy).__name__}, and a planned step runs on one device; data_parallel=True averages "
                          "gradients under torchrun")
    hooks = [c for c in getattr(optimizer, "_callbacks", None) or [] if callable(getattr(c, "on_after_optimizer_step", None))]
    if hooks:
        raise Unsupported(f"{name} calls {type(hooks[0]).__name__}.on_after_optimizer_step, and a planned step does not call its step(); "
                          "call it after step(batch)")


def _refuse_scaler(name: str) -> None:
    raise Unsupported(f"{name} has a gradient scaler, which decides by the contents of all gradients whether there is an update; bfloat16 "
                      "needs none, and check_finite=True stops a step with a gradient that is not finite")


def model_in(model: torch.nn.Module) -> torch.nn.Module:
    """The module that torch.compile was called with, or the one given. Raises Unsupported for one that its wrapper spreads over devices
    or ranks."""
    if isinstance(model, torch._dynamo.OptimizedModule):
        model = model._orig_mod
    if isinstance(model, torch.nn.DataParallel) and len(model.device_ids) > 1:
        raise Unsupported(f"model is a DataParallel over {len(model.device_ids)} GPUs, and a planned step runs on one device; give model.module")
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise Unsupported("model is a DistributedDataParallel, whose hooks average gradients in a backward pass of PyTorch's; give model.module, "
                          "and data_parallel=True averages them in the plan")
    return model
