"""Quantization-aware training as torch.ao.quantization makes it: observers and fake quantization are ops of the planned step."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch_models import assert_equal_steps

import lowtide

quantization = pytest.importorskip("torch.ao.quantization")
pytestmark = pytest.mark.filterwarnings("ignore")
FAST = {"effort": 0.1}
FAKE = quantization.FakeQuantize
ACTIVATION = {"quant_min": 0, "quant_max": 255, "dtype": torch.quint8}
WEIGHT = {"quant_min": -128, "quant_max": 127, "dtype": torch.qint8}


def drawn(seed=0):
    return torch.randn(4, 1, 6, 6, generator=torch.Generator().manual_seed(seed))


def fake(activation, weight, weight_scheme, **more):
    return quantization.QConfig(activation=FAKE.with_args(observer=activation, **ACTIVATION),
                                weight=FAKE.with_args(observer=weight, **WEIGHT, qscheme=weight_scheme, **more))


CONFIGS = {
    "fused, per tensor": lambda: quantization.get_default_qat_qconfig("qnnpack"),
    "fused, per channel": lambda: quantization.get_default_qat_qconfig("fbgemm"),
    "moving averages": lambda: fake(quantization.MovingAverageMinMaxObserver, quantization.MinMaxObserver, torch.per_tensor_affine),
    "moving averages per channel": lambda: fake(quantization.MinMaxObserver, quantization.MovingAveragePerChannelMinMaxObserver,
                                                torch.per_channel_affine, ch_axis=0),
}


def network(config, fused=()):
    torch.manual_seed(0)
    layers = [quantization.QuantStub(), nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(48, 4), nn.ReLU(), quantization.DeQuantStub()]
    model = nn.Sequential(*layers).train()
    model.qconfig = CONFIGS[config]()
    if fused:
        quantization.fuse_modules_qat(model, [list(names) for names in fused], inplace=True)
    return quantization.prepare_qat(model, inplace=True)


def loss_of(model, x):
    return model(x).square().mean()


def compiled(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return lowtide.compile_step(model, loss_of, optimizer, drawn(), **FAST), optimizer


@pytest.mark.parametrize(("config", "fused"), [("fused, per tensor", ()), ("fused, per channel", (("1", "2"), ("4", "5"))),
                                               ("moving averages", (("4", "5"),)), ("moving averages per channel", ())])
def test_steps_are_eager_modes_with_observers_on_and_off(config, fused):
    model = network(config, fused)
    if "channel" in config:
        model(drawn(7))
    other = copy.deepcopy(model)
    others = torch.optim.SGD(other.parameters(), lr=0.05, momentum=0.9)
    step, optimizer = compiled(model)
    assert "equal bits" in step.rehearsal
    assert_equal_steps(step, model, optimizer, other, others, loss_of, drawn(1), 2)
    for one in (model, other):
        one.apply(quantization.disable_observer)
    kept = [m.min_val.clone() for m in model.modules() if hasattr(m, "min_val")]
    assert_equal_steps(step, model, optimizer, other, others, loss_of, drawn(2), 1)
    assert all(map(torch.equal, kept, (m.min_val for m in model.modules() if hasattr(m, "min_val"))))
    for one in (model, other):
        one.apply(quantization.disable_fake_quant)
    assert_equal_steps(step, model, optimizer, other, others, loss_of, drawn(3), 1)


class Sized(nn.Module):
    """A buffer that gets its size from what it is given first."""

    def __init__(self, how):
        super().__init__()
        self.layer, self.how = nn.Linear(36, 3), how
        self.register_buffer("top", torch.empty(0))

    def forward(self, x):
        y = self.layer(x.flatten(1))
        with torch.no_grad():
            if self.how == "out":
                torch.amax(y, 0, out=self.top)
            else:
                self.top.resize_(3).copy_(y.amax(0))
        return y * self.top


@pytest.mark.parametrize("make", [lambda: network("fused, per channel"), lambda: network("moving averages per channel"), lambda: Sized("out"),
                                  lambda: Sized("resize_")])
def test_buffers_that_get_their_size_in_the_first_run_are_refused_with_the_way_round(make):
    model = make()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(lowtide.Unsupported, match=r"another size.*run one batch through the model before the step is compiled"):
        compiled(model)
    assert all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values(), strict=True))
    model = make()  # another one: who looks at a tensor by .numpy() leaves memory that cannot grow
    model(drawn(7))
    other = copy.deepcopy(model)
    step, optimizer = compiled(model)
    assert_equal_steps(step, model, optimizer, other, torch.optim.SGD(other.parameters(), lr=0.05, momentum=0.9), loss_of, drawn(1), 2)


def test_a_minimum_above_the_maximum_raises_as_in_eager_mode_and_changes_nothing():
    model = network("moving averages")
    step, _ = compiled(model)
    step(drawn(1))
    with torch.no_grad():
        model[1].activation_post_process.activation_post_process.min_val.fill_(50.0)
        model[1].activation_post_process.activation_post_process.max_val.fill_(-50.0)
    before = copy.deepcopy(model.state_dict())
    with warnings.catch_warnings(), pytest.raises(AssertionError, match="should be less than max"):
        warnings.simplefilter("ignore")
        step(drawn(2))
    assert all(map(torch.equal, before.values(), model.state_dict().values()))
    with pytest.raises(AssertionError, match="should be less than max"):
        loss_of(copy.deepcopy(model), drawn(2))
