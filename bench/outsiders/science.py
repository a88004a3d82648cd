"""Images of medicine, diffusion models, operators of physics, flows, spiking and liquid networks, Gaussian processes, tables, losses."""

from __future__ import annotations

from typing import Any

import torch
from common import classes, enter, first, ids, image, labelled, network, regression, squares, without
from torch import nn
from torch.nn import functional as F  # noqa: N812

MONAI: dict[str, tuple[str, dict[str, Any]]] = {
    "unet": ("UNet", {"spatial_dims": 2, "in_channels": 3, "out_channels": 2, "channels": (4, 8), "strides": (2,), "num_res_units": 1,
                      "dropout": 0.1}),
    "basic_unet": ("BasicUNet", {"spatial_dims": 2, "in_channels": 3, "out_channels": 2, "features": (4, 4, 8, 8, 8, 4)}),
    "attention_unet": ("AttentionUnet", {"spatial_dims": 2, "in_channels": 3, "out_channels": 2, "channels": (4, 8), "strides": (2,)}),
    "segresnet": ("SegResNet", {"spatial_dims": 2, "in_channels": 3, "out_channels": 2, "init_filters": 4, "blocks_down": (1, 1),
                                "blocks_up": (1,), "norm": ("GROUP", {"num_groups": 2})}),
    "dynunet": ("DynUNet", {"spatial_dims": 2, "in_channels": 3, "out_channels": 2, "kernel_size": (3, 3, 3), "strides": (1, 2, 2),
                            "upsample_kernel_size": (2, 2), "filters": (4, 8, 8)}),
    "vnet": ("VNet", {"spatial_dims": 2, "in_channels": 1, "out_channels": 2, "dropout_prob_down": 0.1, "dropout_prob_up": (0.1, 0.1)}),
    "densenet": ("DenseNet", {"spatial_dims": 2, "in_channels": 3, "out_channels": 2, "init_features": 4, "growth_rate": 4, "block_config": (1, 1)}),
    "unetr": ("UNETR", {"in_channels": 3, "out_channels": 2, "img_size": 32, "feature_size": 4, "hidden_size": 16, "mlp_dim": 16, "num_heads": 2,
                        "spatial_dims": 2}),
    "swin_unetr": ("SwinUNETR", {"in_channels": 3, "out_channels": 2, "feature_size": 12, "spatial_dims": 2, "depths": (1, 1, 1, 1),
                                 "num_heads": (1, 1, 2, 2), "window_size": 4}),
    "highresnet": ("HighResNet", {"spatial_dims": 2, "in_channels": 3, "out_channels": 2}),
}
_LARGER = {"swin_unetr": 64, "vnet": 32}


def _medical(name: str, head: str, given: dict[str, Any]):
    import monai.networks.nets
    channels, side = given["in_channels"], _LARGER.get(name, 32)

    def loss(m, b):
        out = m(b[0])
        out = out if isinstance(out, torch.Tensor) else out[0]
        return F.cross_entropy(out, classes(2, *b[1].shape) * 0 + b[1]) if out.ndim == 4 else F.cross_entropy(out, b[1][:, 0, 0])
    return getattr(monai.networks.nets, head)(**given), lambda: (image(2, side, channels), classes(2, 2, side, side)), loss


for _name, (_head, _given) in MONAI.items():
    enter("monai", f"monai/{_name}", lambda n=_name, h=_head, g=_given: _medical(n, h, g))


@network("monai", "monai/dice")
def _dice():
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet
    loss = DiceCELoss(softmax=True, to_onehot_y=True)
    return UNet(spatial_dims=2, in_channels=3, out_channels=2, channels=(4, 8), strides=(2,)), \
        lambda: (image(2), classes(2, 2, 1, 32, 32)), lambda m, b: loss(m(b[0]), b[1])


# ---- diffusers


@network("diffusers", "diffusers/unet2d")
def _unet2d():
    from diffusers import UNet2DModel
    model = UNet2DModel(sample_size=16, in_channels=3, out_channels=3, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
                        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=4)
    return model, lambda: (image(2, 16), torch.randint(0, 100, (2,)), image(2, 16)), \
        lambda m, b: F.mse_loss(m(b[0], b[1]).sample, b[2])


@network("diffusers", "diffusers/unet2d_condition")
def _unet_condition():
    from diffusers import UNet2DConditionModel
    model = UNet2DConditionModel(sample_size=16, in_channels=4, out_channels=4, block_out_channels=(8, 16), layers_per_block=1,
                                 norm_num_groups=4, cross_attention_dim=8, attention_head_dim=4,
                                 down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))
    return model, lambda: (image(2, 16, 4), torch.randint(0, 100, (2,)), torch.randn(2, 5, 8)), lambda m, b: m(*b).sample.square().mean()


@network("diffusers", "diffusers/unet1d")
def _unet1d():
    from diffusers import UNet1DModel
    model = UNet1DModel(sample_size=16, in_channels=2, out_channels=2, block_out_channels=(32, 32), extra_in_channels=64,
                        down_block_types=("DownBlock1DNoSkip", "DownBlock1D"), up_block_types=("UpBlock1D", "UpBlock1DNoSkip"))
    return model, lambda: (torch.randn(2, 2, 32), torch.randint(0, 100, (2,))), lambda m, b: m(*b).sample.square().mean()


@network("diffusers", "diffusers/autoencoder_kl")
def _autoencoder():
    from diffusers import AutoencoderKL
    model = AutoencoderKL(block_out_channels=(8, 8), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
                          norm_num_groups=4, latent_channels=4, sample_size=16, layers_per_block=1)

    def loss(m, x):
        found = m.encode(x).latent_dist
        return F.mse_loss(m.decode(found.sample()).sample, x) + 1e-3 * found.kl().mean()
    return model, lambda: image(2, 16), loss


@network("diffusers", "diffusers/vq_model")
def _vq():
    from diffusers import VQModel
    model = VQModel(block_out_channels=(8,), norm_num_groups=4, num_vq_embeddings=16, latent_channels=4, sample_size=16)
    return model, lambda: image(2, 16), lambda m, x: (lambda o: F.mse_loss(o.sample, x) + o.commit_loss.mean())(m(x))


@network("diffusers", "diffusers/dit")
def _dit():
    from diffusers import DiTTransformer2DModel
    model = DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=1, sample_size=8, norm_num_groups=2,
                                  patch_size=2, num_embeds_ada_norm=10)
    return model, lambda: (image(2, 8, 4), torch.randint(0, 10, (2,)), torch.randint(0, 10, (2,))), \
        lambda m, b: m(b[0], timestep=b[1], class_labels=b[2]).sample.square().mean()


@network("diffusers", "diffusers/sd3")
def _sd3():
    from diffusers import SD3Transformer2DModel
    model = SD3Transformer2DModel(sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=2,
                                  joint_attention_dim=8, caption_projection_dim=16, pooled_projection_dim=8, out_channels=4, pos_embed_max_size=8)
    return model, lambda: (image(2, 8, 4), torch.randn(2, 3, 8), torch.randn(2, 8), torch.randint(0, 100, (2,))), \
        lambda m, b: m(*b).sample.square().mean()


@network("diffusers", "diffusers/flux")
def _flux():
    from diffusers import FluxTransformer2DModel
    model = FluxTransformer2DModel(patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=8, num_attention_heads=2,
                                   joint_attention_dim=8, pooled_projection_dim=8, axes_dims_rope=(2, 2, 4))

    def loss(m, b):
        return m(hidden_states=b[0], encoder_hidden_states=b[1], pooled_projections=b[2], timestep=b[3], img_ids=torch.zeros(6, 3),
                 txt_ids=torch.zeros(3, 3)).sample.square().mean()
    return model, lambda: (torch.randn(2, 6, 4), torch.randn(2, 3, 8), torch.randn(2, 8), torch.rand(2)), loss


@network("diffusers", "diffusers/pixart")
def _pixart():
    from diffusers import PixArtTransformer2DModel
    model = PixArtTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=1, sample_size=8,
                                     patch_size=2, cross_attention_dim=16, caption_channels=8, use_additional_conditions=False)
    return model, lambda: (image(2, 8, 4), torch.randn(2, 3, 8), torch.randint(0, 100, (2,))), \
        lambda m, b: m(b[0], encoder_hidden_states=b[1], timestep=b[2]).sample.square().mean()


@network("diffusers", "diffusers/autoencoder_tiny")
def _uvit():
    from diffusers import AutoencoderTiny
    model = AutoencoderTiny(in_channels=3, out_channels=3, encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8),
                            num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1))
    return model, lambda: image(2, 16), lambda m, x: m(x).sample.square().mean()


# ---- operators, equations


@network("neuralop", "neuralop/fno")
def _fno():
    from neuralop.models import FNO
    return FNO(n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2), lambda: (image(2, 16, 1), image(2, 16, 1)), regression


@network("neuralop", "neuralop/tfno")
def _tfno():
    from neuralop.models import TFNO
    return TFNO(n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2, factorization="tucker", rank=0.5), \
        lambda: (image(2, 16, 1), image(2, 16, 1)), regression


@network("neuralop", "neuralop/uno")
def _uno():
    from neuralop.models import UNO
    return UNO(in_channels=1, out_channels=1, hidden_channels=8, lifting_channels=8, projection_channels=8, n_layers=3, uno_out_channels=[8, 8, 8], channel_mlp_skip="linear",
               uno_n_modes=[[4, 4]] * 3, uno_scalings=[[1, 1], [0.5, 0.5], [2, 2]]), lambda: (image(2, 16, 1), image(2, 16, 1)), regression


class _Slope(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, t, y):
        return self.net(y)


@network("torchdiffeq", "torchdiffeq/rk4")
def _rk4():
    from torchdiffeq import odeint
    return _Slope(), lambda: torch.randn(4, 3), lambda m, y: odeint(m, y, torch.linspace(0, 1, 4), method="rk4")[-1].square().mean()


@network("torchdiffeq", "torchdiffeq/euler")
def _euler():
    from torchdiffeq import odeint
    return _Slope(), lambda: torch.randn(4, 3), lambda m, y: odeint(m, y, torch.linspace(0, 1, 4), method="euler")[-1].square().mean()


@network("torchdiffeq", "torchdiffeq/adjoint")
def _adjoint():
    from torchdiffeq import odeint_adjoint
    return _Slope(), lambda: torch.randn(4, 3), lambda m, y: odeint_adjoint(m, y, torch.linspace(0, 1, 4), method="rk4")[-1].square().mean()


class _Stochastic(nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift, self.spread = nn.Linear(3, 3), nn.Linear(3, 3)

    def f(self, t, y):
        return torch.tanh(self.drift(y))

    def g(self, t, y):
        return torch.sigmoid(self.spread(y))


@network("torchsde", "torchsde/euler")
def _sde():
    import torchsde
    return _Stochastic(), lambda: torch.randn(4, 3), lambda m, y: torchsde.sdeint(m, y, torch.linspace(0, 1, 3), dt=0.25, method="euler")[-1].square().mean()


# ---- flows


@network("nflows", "nflows/affine")
def _affine():
    with without("matplotlib", "matplotlib.pyplot"):  # imported beside
        from nflows.distributions import StandardNormal
        from nflows.flows import Flow
        from nflows.transforms import CompositeTransform, MaskedAffineAutoregressiveTransform, ReversePermutation
    model = Flow(CompositeTransform([ReversePermutation(4), MaskedAffineAutoregressiveTransform(features=4, hidden_features=8)]), StandardNormal([4]))
    return model, lambda: torch.randn(6, 4), lambda m, x: -m.log_prob(x).mean()


@network("nflows", "nflows/spline")
def _spline():
    with without("matplotlib", "matplotlib.pyplot"):  # imported beside
        from nflows.distributions import StandardNormal
        from nflows.flows import Flow
        from nflows.transforms import MaskedPiecewiseRationalQuadraticAutoregressiveTransform
    model = Flow(MaskedPiecewiseRationalQuadraticAutoregressiveTransform(features=4, hidden_features=8, num_bins=4, tails="linear", tail_bound=3.0),
                 StandardNormal([4]))
    return model, lambda: torch.randn(6, 4), lambda m, x: -m.log_prob(x).mean()


@network("normflows", "normflows/real_nvp")
def _nvp():
    import normflows as nf
    flows = []
    for _ in range(2):
        flows += [nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 8, 2], init_zeros=True)), nf.flows.Permute(2, mode="swap")]
    return nf.NormalizingFlow(nf.distributions.base.DiagGaussian(2), flows), lambda: torch.randn(6, 2), lambda m, x: m.forward_kld(x)


@network("normflows", "normflows/glow")
def _glow():
    import normflows as nf
    model = nf.NormalizingFlow(nf.distributions.base.DiagGaussian(4), [nf.flows.ActNorm(4), nf.flows.LULinearPermute(4)])
    return model, lambda: torch.randn(6, 4), lambda m, x: m.forward_kld(x)


@network("zuko", "zuko/maf")
def _maf():
    import zuko
    return zuko.flows.MAF(features=3, context=2, transforms=2, hidden_features=(8,)), lambda: (torch.randn(6, 3), torch.randn(6, 2)), \
        lambda m, b: -m(b[1]).log_prob(b[0]).mean()


@network("zuko", "zuko/nsf")
def _nsf():
    import zuko
    return zuko.flows.NSF(features=3, transforms=1, hidden_features=(8,)), lambda: torch.randn(6, 3), lambda m, x: -m().log_prob(x).mean()


@network("FrEIA", "freia/inn")
def _inn():
    import FrEIA.framework as framework
    import FrEIA.modules as modules
    model = framework.SequenceINN(4)
    for _ in range(2):
        model.append(modules.AllInOneBlock, subnet_constructor=lambda a, b: nn.Sequential(nn.Linear(a, 8), nn.ReLU(), nn.Linear(8, b)))
    return model, lambda: torch.randn(6, 4), lambda m, x: (lambda o: (0.5 * o[0].square().sum(1) - o[1]).mean())(m(x))


# ---- spikes, liquid time constants, state spaces


class _Spiking(nn.Module):
    def __init__(self):
        super().__init__()
        import snntorch
        self.one, self.two = nn.Linear(6, 8), nn.Linear(8, 3)
        self.first, self.second = snntorch.Leaky(beta=0.9), snntorch.Leaky(beta=0.8, learn_beta=True)

    def forward(self, x):
        a, b, shown = self.first.init_leaky(), self.second.init_leaky(), []
        for k in range(x.shape[0]):
            spikes, a = self.first(self.one(x[k]), a)
            spikes, b = self.second(self.two(spikes), b)
            shown.append(b)
        return torch.stack(shown).mean(0)


@network("snntorch", "snntorch/leaky")
def _leaky():
    return _Spiking(), lambda: (torch.randn(4, 5, 6), classes(3, 5)), labelled


@network("spikingjelly", "spikingjelly/lif")
def _lif():
    from spikingjelly.activation_based import functional, layer, neuron
    model = nn.Sequential(layer.Linear(6, 8), neuron.LIFNode(detach_reset=True), layer.Linear(8, 3), neuron.IFNode())

    def loss(m, b):
        functional.reset_net(m)
        return F.mse_loss(torch.stack([m(b[0]) for _ in range(3)]).mean(0), b[1])
    return model, lambda: (torch.randn(5, 6), torch.rand(5, 3)), loss


@network("ncps", "ncps/cfc")
def _cfc():
    from ncps.torch import CfC
    return CfC(4, 8, proj_size=2), lambda: (torch.randn(3, 5, 4),), squares


@network("ncps", "ncps/ltc")
def _ltc():
    from ncps.torch import LTC
    from ncps.wirings import AutoNCP
    return LTC(4, AutoNCP(8, 2)), lambda: (torch.rand(3, 3, 4),), squares


@network("mambapy", "mambapy/mamba")
def _mamba():
    from mambapy.mamba import Mamba, MambaConfig
    return Mamba(MambaConfig(d_model=8, n_layers=2, d_state=4)), lambda: (torch.randn(2, 8, 8),), squares


@network("pytorch_tcn", "pytorch_tcn/tcn")
def _tcn():
    from pytorch_tcn import TCN
    return TCN(num_inputs=4, num_channels=[8, 8], kernel_size=3, dropout=0.1), lambda: (torch.randn(2, 4, 12),), squares


# ---- Gaussian processes, tables, splines, tagging


@network("gpytorch", "gpytorch/deep_kernel")
def _deep_kernel():
    import gpytorch

    class Sparse(gpytorch.models.ApproximateGP):
        def __init__(self):
            points = torch.randn(5, 2)
            strategy = gpytorch.variational.VariationalStrategy(self, points, gpytorch.variational.CholeskyVariationalDistribution(5))
            super().__init__(strategy)
            self.features = nn.Linear(3, 2)
            self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
            self.likelihood = gpytorch.likelihoods.GaussianLikelihood()

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))
    model = Sparse()
    bound = gpytorch.mlls.VariationalELBO(model.likelihood, model, num_data=8)
    return model, lambda: (torch.randn(8, 3), torch.randn(8)), lambda m, b: -bound(m(m.features(b[0])), b[1])


@network("gpytorch", "gpytorch/kernels")
def _kernels():
    import gpytorch
    model = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5) + gpytorch.kernels.PeriodicKernel())
    return model, lambda: torch.randn(6, 3), lambda m, x: m(x).to_dense().square().mean()


@network("rtdl_revisiting_models", "rtdl/ft_transformer")
def _rtdl():
    from rtdl_revisiting_models import FTTransformer
    model = FTTransformer(n_cont_features=3, cat_cardinalities=[4, 3], d_out=5, n_blocks=1, d_block=8, attention_n_heads=2, attention_dropout=0.1,
                          ffn_d_hidden_multiplier=2.0, ffn_dropout=0.1, residual_dropout=0.0)
    return model, lambda: (torch.randn(4, 3), torch.randint(0, 3, (4, 2)), classes(5, 4)), labelled


@network("tabm", "tabm/tabm")
def _tabm():
    import tabm
    model = tabm.TabM.make(n_num_features=3, cat_cardinalities=[4, 3], d_out=1, n_blocks=2, d_block=8, k=4)
    return model, lambda: (torch.randn(4, 3), torch.randint(0, 3, (4, 2))), squares


@network("rtdl_num_embeddings", "rtdl/periodic")
def _periodic():
    from rtdl_num_embeddings import PeriodicEmbeddings
    return nn.Sequential(PeriodicEmbeddings(3, 8, lite=False), nn.Flatten(), nn.Linear(24, 5)), lambda: (torch.randn(4, 3), classes(5, 4)), labelled


@network("torchcrf", "torchcrf/crf")
def _crf():
    from torchcrf import CRF

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.body, self.head, self.crf = nn.Embedding(64, 8), nn.LSTM(8, 4, bidirectional=True, batch_first=True), nn.Linear(8, 5), \
                CRF(5, batch_first=True)

        def forward(self, words, tags):
            return -self.crf(self.head(self.body(self.embed(words))[0]), tags, reduction="mean")
    return Tagger(), lambda: (ids(2, 6, 64), classes(5, 2, 6)), lambda m, b: m(*b)


@network("efficientnet_pytorch", "efficientnet_pytorch/b0")
def _efficientnet():
    from efficientnet_pytorch import EfficientNet
    from efficientnet_pytorch.utils import BlockArgs, GlobalParams
    blocks = [BlockArgs(1, 3, [1], 1, 32, 32, 0.25, True), BlockArgs(1, 3, [2], 2, 32, 64, 0.25, True)]
    sizes = GlobalParams(0.25, 1.0, 32, 0.1, 5, 0.99, 1e-3, 0.2, 8, None, True)
    return EfficientNet(blocks, sizes), lambda: (image(2), classes(5)), labelled


@network("peft", "peft/lora")
def _lora():
    from peft import LoraConfig, get_peft_model
    from transformers_tiny import model_of
    model = get_peft_model(model_of("llama", "LlamaForCausalLM"), LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.1))
    return model, lambda: {"input_ids": ids(2, 12), "labels": ids(2, 12)}, lambda m, b: m(**b).loss


@network("peft", "peft/ia3")
def _ia3():
    from peft import IA3Config, get_peft_model
    from transformers_tiny import model_of
    model = get_peft_model(model_of("gpt2", "GPT2LMHeadModel"), IA3Config(target_modules=["c_attn", "mlp.c_proj"], feedforward_modules=["mlp.c_proj"]))
    return model, lambda: {"input_ids": ids(2, 12), "labels": ids(2, 12)}, lambda m, b: m(**b).loss


@network("peft", "peft/prefix")
def _prefix():
    from peft import PromptTuningConfig, get_peft_model
    from transformers_tiny import model_of
    model = get_peft_model(model_of("gpt2", "GPT2LMHeadModel"), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3))
    return model, lambda: {"input_ids": ids(2, 12), "labels": ids(2, 12)}, lambda m, b: m(**b).loss


def _embedded(loss_of):
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    loss = loss_of()
    return model, lambda: (torch.randn(8, 6), torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])), lambda m, b: loss(m(b[0]), b[1])


for _name in ("TripletMarginLoss", "NTXentLoss", "ContrastiveLoss", "MultiSimilarityLoss", "SupConLoss"):
    def _metric(name=_name):
        import pytorch_metric_learning.losses
        return _embedded(getattr(pytorch_metric_learning.losses, name))
    enter("pytorch_metric_learning", f"metric_learning/{_name}", _metric)


@network("pytorch_msssim", "pytorch_msssim/ssim")
def _ssim():
    from pytorch_msssim import SSIM
    loss = SSIM(data_range=1.0, channel=3)
    return nn.Conv2d(3, 3, 3, padding=1), lambda: (torch.rand(2, 3, 16, 16), torch.rand(2, 3, 16, 16)), lambda m, b: 1 - loss(m(b[0]).sigmoid(), b[1])


@network("entmax", "entmax/sparse")
def _entmax():
    from entmax import Entmax15Loss
    loss = Entmax15Loss()
    return nn.Linear(6, 5), lambda: (torch.randn(4, 6), classes(5, 4)), lambda m, b: loss(m(b[0]), b[1])


@network("kornia", "kornia/losses")
def _kornia():
    import kornia
    loss = kornia.losses.FocalLoss(alpha=0.5, gamma=2.0, reduction="mean")
    return nn.Conv2d(3, 4, 3, padding=1), lambda: (image(2, 16), classes(4, 2, 16, 16)), \
        lambda m, b: loss(m(b[0]), b[1]) + kornia.losses.total_variation(m(b[0])).mean() * 1e-3 + kornia.filters.sobel(m(b[0])).mean()


@network("kornia", "kornia/geometry")
def _geometry():
    import kornia
    from kornia.geometry.transform import warp_affine

    class Warped(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.Parameter(torch.tensor([[[1.0, 0.1, 0.5], [0.0, 1.0, -0.5]]]))

        def forward(self, x):
            return warp_affine(x, self.shift, (16, 16)) - kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0))
    return Warped(), lambda: (image(1, 16),), squares


@network("tltorch", "tltorch/factorized")
def _tltorch():
    from tltorch import FactorizedLinear
    return nn.Sequential(FactorizedLinear((2, 3), (2, 2), rank=2, factorization="cp"), nn.ReLU(), nn.Linear(4, 3)), \
        lambda: (torch.randn(5, 6), classes(3, 5)), labelled


@network("rotary_embedding_torch", "rotary_embedding")
def _rotary():
    from rotary_embedding_torch import RotaryEmbedding

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.all, self.rotary = nn.Linear(8, 24), RotaryEmbedding(dim=4)

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.all(x).chunk(3, -1))
            return F.scaled_dot_product_attention(self.rotary.rotate_queries_or_keys(q), self.rotary.rotate_queries_or_keys(k), v, is_causal=True)
    return Attention(), lambda: (torch.randn(2, 6, 8),), lambda m, b: first(m(*b)).square().mean()
