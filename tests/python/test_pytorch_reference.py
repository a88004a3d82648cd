"""The reference itself: what it computes is checked by definition, since Lowtide's training steps are compared with it."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import pytorch_reference as reference  # noqa: E402
from networks import NETWORKS  # noqa: E402


@pytest.fixture(scope="module")
def unet_step():
    return reference.training_step("unet", batch=2, size=32, seed=5)


def test_every_parameter_has_a_finite_gradient(unet_step):
    model = reference.build("unet", 5)
    assert set(unet_step.gradients) == {name for name, _ in model.named_parameters()}
    for name, gradient in unet_step.gradients.items():
        assert torch.isfinite(gradient).all() and gradient.abs().max() > 0, name


def test_first_adamw_step_by_its_definition(unet_step):
    # After one step the bias-corrected moments are g and g^2.
    for name, before in reference.build("unet", 5).named_parameters():
        g = unet_step.gradients[name].double()
        expected = before.detach().double() * (1 - 1e-3 * 0.01) - 1e-3 * g / (g.abs() + 1e-8)
        torch.testing.assert_close(unet_step.updated[name].double(), expected, rtol=1e-4, atol=2e-6)


def test_loss_is_the_mean_over_pixels(unet_step):
    labels = reference.make_labels(NETWORKS["unet"], tuple(unet_step.logits.shape), 5)
    log_probabilities = torch.log_softmax(unet_step.logits.double(), 1)
    chosen = log_probabilities.gather(1, labels.unsqueeze(1))
    assert unet_step.loss == pytest.approx(-chosen.mean().item(), rel=1e-5)


def test_a_gradient_agrees_with_finite_differences(unet_step):
    network = NETWORKS["unet"]
    model = reference.build("unet", 5).double()
    inputs = reference.make_inputs(network, 2, size=32, seed=5)[0].double()
    labels = reference.make_labels(network, (2, 2, 32, 32), 5)
    bias = model.head.bias
    losses = []
    for step in (1e-4, -2e-4):
        with torch.no_grad():
            bias[0] += step
            losses.append(reference.cross_entropy(network, model(inputs), labels).item())
    assert unet_step.gradients["head.bias"][0].item() == pytest.approx((losses[0] - losses[1]) / 2e-4, rel=1e-3)


def test_masks_have_both_values_in_every_row():
    """What BERT is compared on has padded positions, and no row that is nothing but padding."""
    network = NETWORKS["bert"]
    names = [entry.name for entry in network.inputs]
    mask = reference.make_inputs(network, 2, 16, seed=1)[names.index("attention_mask")]
    assert mask.shape == (2, 16) and set(mask.unique().tolist()) == {0, 1}
    assert (mask.sum(dim=1) > 0).all() and (mask.sum(dim=1) < 16).all()


def test_arrays_are_sampled_evenly_and_keep_the_norm(unet_step):
    whole, few = reference.to_arrays(unet_step, 0), reference.to_arrays(unet_step, 100)
    key = "grad/down.4.3.weight"
    assert whole[key].size == np.prod(whole[f"shape/{key}"])
    stride = -(-whole[key].size // 100)
    assert np.array_equal(few[key], whole[key][::stride]) and few[key].size <= 100
    assert few[f"norm/{key}"] == pytest.approx(np.linalg.norm(whole[key].astype(np.float64)))
