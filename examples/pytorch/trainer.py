#!/usr/bin/env python3
"""A Hugging Face Trainer with the backend, beside one in eager mode: losses and parameters are equal bit for bit.

    python examples/pytorch/trainer.py

The Trainer calls the model itself, so the model is compiled in place, before the Trainer is made; the
optimizer, which is the Trainer's, stays outside of the budget's reach. One shape of batch is one plan:
`dynamic=False`, and no shorter last batch.
"""

import os
import tempfile
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments  # noqa: E402

from lowtide.pytorch import backend  # noqa: E402


def network() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, n_head=2, n_embd=32, n_positions=32, vocab_size=96,
                        use_cache=False, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # otherwise it logs a warning in the loss, where the graph breaks
    return model


def samples() -> list[dict[str, torch.Tensor]]:
    ids = torch.randint(0, 96, (8, 16), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row} for row in ids]


def trained(model: GPT2LMHeadModel, folder: str, **more: Any) -> list[float]:
    """The loss of each step. `more`: of TrainingArguments."""
    arguments = TrainingArguments(**{
        "output_dir": folder, "max_steps": 3, "per_device_train_batch_size": 4, "dataloader_drop_last": True,
        "logging_steps": 1, "seed": 5, "use_cpu": True, "save_strategy": "no", "report_to": [],
        "disable_tqdm": True, "dataloader_pin_memory": False, **more})
    trainer = Trainer(model=model, args=arguments, train_dataset=samples())
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def main() -> None:
    model, other = network(), network()
    options = {"budget": "90%", "effort": 0.2}
    model.compile(backend=backend.lowtide, options=options, dynamic=False)
    with tempfile.TemporaryDirectory() as folder:
        mine, wanted = trained(model, folder), trained(other, folder)
    assert mine == wanted, (mine, wanted)
    for (name, ours), theirs in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs), name
    assert backend.last_plans, "nothing was planned"
    plans = backend.last_plans
    print(f"losses {mine}, {len(plans)} plan, arena {plans[0].arena_bytes} bytes, as in eager mode")


if __name__ == "__main__":
    main()
