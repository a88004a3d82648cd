"""A loss that belongs to who holds the step: captures for another batch, mode or number walk past what is Lowtide's."""

import functools

import pytest
from torch_models import torch

import lowtide

nn, F = torch.nn, torch.nn.functional


class Trainer:
    """Model, optimizer, loss and step in one object, as trainers have them."""

    def __init__(self, planned):
        torch.manual_seed(0)
        self.model, self.weight, self.losses = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.1), nn.Linear(8, 3)), 1.0, []
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        g = torch.Generator().manual_seed(1)
        self.data = [(torch.randn(n, 6, generator=g), torch.randint(0, 3, (n,), generator=g)) for n in (4, 4, 2, 4, 3)]
        self.step = lowtide.compile_step(self.model, self.loss, self.optimizer, self.data[0], effort=0.1) if planned else self.eager

    def loss(self, model, batch):
        return self.weight * F.cross_entropy(model(batch[0]), batch[1])

    def eager(self, batch):
        self.optimizer.zero_grad()
        loss = self.loss(self.model, batch)
        loss.backward()
        self.optimizer.step()
        return loss


class InADict(Trainer):
    def __init__(self, planned):
        self.parts = {}
        super().__init__(planned)
        self.parts["steps"] = [self.step]

    def loss(self, model, batch):
        return self.parts.get("scale", 1.0) * super().loss(model, batch)


class InAPartial(Trainer):
    def __init__(self, planned):
        super().__init__(planned)
        self.run = functools.partial(self.step)


class WithAPlan(Trainer):
    def __init__(self, planned):
        super().__init__(planned)
        self.plan = lowtide.plan(self.model, self.loss, self.optimizer, self.data[0], effort=0.1)


CHANGES = {"size": lambda trainer, k: None, "mode": lambda trainer, k: trainer.model.train(k != 2),
           "number": lambda trainer, k: setattr(trainer, "weight", 1.0 if k < 3 else 0.5)}


@pytest.mark.filterwarnings("ignore:lowtide")
@pytest.mark.parametrize(("kind", "change"), [(Trainer, "size"), (Trainer, "mode"), (Trainer, "number"), (InADict, "size"), (InAPartial, "mode"),
                                              (WithAPlan, "number")])
def test_who_holds_the_step_may_own_the_loss(kind, change):
    found = []
    for planned in (True, False):
        trainer = kind(planned)
        torch.manual_seed(5)
        for k, batch in enumerate(trainer.data):
            CHANGES[change](trainer, k)
            trainer.losses.append(trainer.step(batch).item())
        found.append(trainer)
    mine, its = found
    assert mine.losses == its.losses and all(map(torch.equal, mine.model.parameters(), its.model.parameters()))
