"""Published ideas as small packages, most by one author: vision transformers, long sequences, codebooks, mixtures of experts."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from common import classes, enter, ids, image, labelled, network, squares, without
from torch.nn import functional as F  # noqa: N812

VIT = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 16, "depth": 2, "heads": 2, "mlp_dim": 32}
# module of vit_pytorch, class, what its constructor takes
VISION: list[tuple[str, str, dict[str, Any]]] = [
    ("vit", "ViT", VIT | {"dropout": 0.1, "emb_dropout": 0.1}), ("simple_vit", "SimpleViT", VIT), ("deepvit", "DeepViT", VIT),
    ("simple_vit_with_register_tokens", "SimpleViT", VIT), ("simple_vit_with_qk_norm", "SimpleViT", VIT),
    ("simple_vit_with_patch_dropout", "SimpleViT", VIT | {"patch_dropout": 0.25}), ("simple_vit_with_fft", "SimpleViT",
                                                                                 VIT | {"freq_patch_size": 8}),
    ("cait", "CaiT", VIT | {"cls_depth": 1, "layer_dropout": 0.0}), ("parallel_vit", "ViT", VIT | {"num_parallel_branches": 2}),
    ("learnable_memory_vit", "ViT", VIT), ("vit_for_small_dataset", "ViT", VIT), ("vit_with_patch_merger", "ViT",
                                                                              VIT | {"patch_merge_layer": 1, "patch_merge_num_tokens": 4}),
    ("t2t", "T2TViT", {"image_size": 32, "dim": 16, "depth": 1, "heads": 2, "mlp_dim": 32, "num_classes": 5, "t2t_layers": ((7, 4), (3, 2))}),
    ("cct", "CCT", {"img_size": 32, "embedding_dim": 16, "n_conv_layers": 1, "num_layers": 2, "num_heads": 2, "mlp_ratio": 2, "num_classes": 5}),
    ("pit", "PiT", {"image_size": 32, "patch_size": 8, "dim": 16, "num_classes": 5, "depth": (1, 1), "heads": 2, "mlp_dim": 32}),
    ("levit", "LeViT", {"image_size": 64, "num_classes": 5, "stages": 2, "dim": (16, 32), "depth": 1, "heads": (2, 2), "mlp_mult": 2}),
    ("cvt", "CvT", {"num_classes": 5, **{f"s{k}_{n}": v for k in (1, 2, 3) for n, v in (("emb_dim", 8), ("heads", 1), ("depth", 1),
                                                                                     ("mlp_mult", 2))}}),
    ("twins_svt", "TwinsSVT", {"num_classes": 5, "s1_emb_dim": 8, "s2_emb_dim": 8, "s3_emb_dim": 16, "s4_emb_dim": 16, "s1_local_patch_size": 2,
                               "s2_local_patch_size": 2, "s3_local_patch_size": 2, "s1_patch_size": 2, "s2_patch_size": 2, "s3_patch_size": 2,
                               "s4_patch_size": 2, "s3_depth": 1, "s4_depth": 1, "s1_global_k": 2, "s2_global_k": 2, "s3_global_k": 1, "s4_global_k": 1}),
    ("crossformer", "CrossFormer", {"num_classes": 5, "dim": (32, 32, 64, 64), "depth": (1, 1, 1, 1), "global_window_size": (4, 2, 1, 1),
                                    "local_window_size": 1}),
    ("max_vit", "MaxViT", {"num_classes": 5, "dim": 8, "dim_conv_stem": 8, "dim_head": 4, "depth": (1, 1), "window_size": 4}),
    ("nest", "NesT", {"image_size": 32, "patch_size": 4, "dim": 8, "heads": 2, "num_hierarchies": 2, "block_repeats": (1, 1), "num_classes": 5}),
    ("mobile_vit", "MobileViT", {"image_size": (32, 32), "dims": [16, 20, 24], "channels": [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 16], "num_classes": 5,
                                 "depths": (1, 1, 1), "patch_size": (1, 1)}),
    ("xcit", "XCiT", VIT | {"cls_depth": 1}), ("rvt", "RvT", VIT), ("regionvit", "RegionViT", {
        "dim": (8, 8, 16, 16), "depth": (1, 1, 1, 1), "window_size": 1, "num_classes": 5}),
    ("scalable_vit", "ScalableViT", {"num_classes": 5, "dim": 8, "heads": (1, 2), "depth": (1, 1), "ssa_dim_key": (4, 4),
                                     "reduction_factor": (2, 1), "window_size": (4, None)}),
    ("cross_vit", "CrossViT", {"image_size": 32, "num_classes": 5, "sm_dim": 16, "lg_dim": 16, "sm_patch_size": 8, "sm_enc_depth": 1,
                               "sm_enc_heads": 2, "sm_enc_mlp_dim": 16, "lg_patch_size": 16, "lg_enc_depth": 1, "lg_enc_heads": 2,
                               "lg_enc_mlp_dim": 16, "cross_attn_depth": 1, "cross_attn_heads": 2, "depth": 1}),
    ("ats_vit", "ViT", {**VIT, "max_tokens_per_depth": (8, 4)}),
    ("simple_vit_with_hyper_connections", "SimpleViT", VIT | {"num_residual_streams": 2}), ("simple_vit_with_value_residual", "SimpleViT", VIT),
    ("normalized_vit", "nViT", VIT), ("look_vit", "LookViT", {
        "dim": 16, "image_size": 32, "num_classes": 5, "depth": 2, "patch_size": 8, "heads": 2, "highres_patch_size": 4,
        "cross_attn_heads": 2}), ("jumbo_vit", "JumboViT", VIT | {"num_jumbo_cls": 1, "jumbo_cls_k": 2}),
]


def _of_vit(module: str, name: str) -> Any:
    with without("torchvision", "torchvision.transforms"):  # for the augmentation of one module
        return getattr(importlib.import_module(f"vit_pytorch.{module}"), name)


def _vision(module: str, head: str, given: dict[str, Any]):
    model = _of_vit(module, head)(**given)
    side = given.get("image_size", given.get("img_size", 32))
    side = side if isinstance(side, int) else side[0]
    return model, lambda: (image(2, side), classes(5)), labelled


for _module, _head, _given in VISION:
    enter("vit_pytorch", f"vit_pytorch/{_module}", lambda m=_module, h=_head, g=_given: _vision(m, h, g))


@network("vit_pytorch", "vit_pytorch/sep_vit")
def _sep_vit():
    model = _of_vit("sep_vit", "SepViT")(num_classes=5, dim=8, dim_head=4, heads=(1, 2), depth=(1, 1))
    return model, lambda: (image(2, 56), classes(5)), labelled  # its windows have a side of 7, whatever it is told


@network("vit_pytorch", "vit_pytorch/vivit")
def _vivit():
    model = _of_vit("vivit", "ViViT")(image_size=16, image_patch_size=8, frames=4, frame_patch_size=2, num_classes=5, dim=16, spatial_depth=1, temporal_depth=1, heads=2,
                mlp_dim=16)
    return model, lambda: (torch.randn(2, 3, 4, 16, 16), classes(5)), labelled


@network("vit_pytorch", "vit_pytorch/distill")
def _distill():
    student, teacher = _of_vit("distill", "DistillableViT")(**VIT), _of_vit("vit", "ViT")(**VIT)
    model = _of_vit("distill", "DistillWrapper")(student=student, teacher=teacher, temperature=3, alpha=0.5, hard=False)
    return model, lambda: (image(2), classes(5)), lambda m, b: m(*b)


@network("vit_pytorch", "vit_pytorch/na_vit")
def _na_vit():
    model = _of_vit("na_vit", "NaViT")(image_size=32, patch_size=8, num_classes=5, dim=16, depth=1, heads=2, mlp_dim=16, token_dropout_prob=None)
    return model, lambda: ([[torch.randn(3, 32, 16), torch.randn(3, 16, 16)], [torch.randn(3, 16, 32)]], classes(5, 3)), labelled


def _words(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
    out = model(batch)
    out = out[0] if isinstance(out, tuple) else out
    return F.cross_entropy(out[:, :-1].flatten(0, 1), batch[:, 1:].flatten())


X_DECODER: dict[str, dict[str, Any]] = {
    "plain": {}, "rotary": {"rotary_pos_emb": True}, "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 1}, "rmsnorm-swiglu":
    {"use_rmsnorm": True, "ff_swish": True, "ff_glu": True}, "memory-tokens": {"attn_num_mem_kv": 4}, "qk-norm": {"attn_qk_norm": True},
    "talking-heads": {"attn_pre_talking_heads": True, "attn_post_talking_heads": True}, "relative-bias": {"rel_pos_bias": True}, "gate-values": {"attn_gate_values": True},
    "hyper-connections": {"num_residual_streams": 2}, "sparse-topk": {"attn_sparse_topk": 4}, "one-kv-head": {"attn_one_kv_head": True},
    "macaron": {"macaron": True}, "sandwich": {"sandwich_norm": True}, "shift-tokens": {"shift_tokens": 1}, "residual-attn":
    {"residual_attn": True}, "deepnorm": {"scale_residual": True}, "dropout": {"attn_dropout": 0.1, "ff_dropout": 0.1, "layer_dropout": 0.0},
}


def _x_decoder(given: dict[str, Any]):
    from x_transformers import Decoder, TransformerWrapper
    model = TransformerWrapper(num_tokens=64, max_seq_len=16, attn_layers=Decoder(dim=16, depth=2, heads=2, attn_dim_head=8, **given))
    return model, lambda: ids(2, 12, 64), _words


for _name, _given in X_DECODER.items():
    enter("x_transformers", f"x_transformers/{_name}", lambda g=_given: _x_decoder(g))


@network("x_transformers", "x_transformers/encoder-decoder")
def _x_both():
    from x_transformers import XTransformer
    model = XTransformer(dim=16, enc_num_tokens=64, enc_depth=1, enc_heads=2, enc_max_seq_len=12, dec_num_tokens=64, dec_depth=1, dec_heads=2,
                         dec_max_seq_len=12, tie_token_emb=True)
    return model, lambda: (ids(2, 12, 64), ids(2, 10, 64)), lambda m, b: m(b[0], b[1])


@network("x_transformers", "x_transformers/continuous")
def _x_continuous():
    from x_transformers import ContinuousTransformerWrapper, Encoder
    model = ContinuousTransformerWrapper(dim_in=6, dim_out=6, max_seq_len=16, attn_layers=Encoder(dim=16, depth=1, heads=2))
    return model, lambda: (torch.randn(2, 12, 6),), squares


@network("linformer", "linformer")
def _linformer():
    from linformer import LinformerLM
    return LinformerLM(num_tokens=64, dim=16, seq_len=12, depth=2, heads=2, k=4), lambda: ids(2, 12, 64), _words


@network("performer_pytorch", "performer")
def _performer():
    from performer_pytorch import PerformerLM
    return PerformerLM(num_tokens=64, max_seq_len=12, dim=16, depth=1, heads=2, dim_head=8, causal=False, nb_features=8,
                       feature_redraw_interval=1000), lambda: ids(2, 12, 64), _words


@network("reformer_pytorch", "reformer")
def _reformer():
    from reformer_pytorch import ReformerLM
    return ReformerLM(num_tokens=64, dim=16, depth=1, max_seq_len=16, heads=2, bucket_size=4, n_hashes=2, causal=True, lsh_dropout=0.0), \
        lambda: ids(2, 16, 64), _words


@network("routing_transformer", "routing_transformer")
def _routing():
    from routing_transformer import RoutingTransformerLM
    return RoutingTransformerLM(num_tokens=64, dim=16, heads=2, depth=1, max_seq_len=16, window_size=4, causal=True), lambda: ids(2, 16, 64), _words


@network("sinkhorn_transformer", "sinkhorn_transformer")
def _sinkhorn():
    from sinkhorn_transformer import SinkhornTransformerLM
    return SinkhornTransformerLM(num_tokens=64, dim=16, heads=2, depth=1, max_seq_len=16, bucket_size=4, causal=False), \
        lambda: ids(2, 16, 64), _words


@network("linear_attention_transformer", "linear_attention_transformer")
def _linear_attention():
    from linear_attention_transformer import LinearAttentionTransformerLM
    return LinearAttentionTransformerLM(num_tokens=64, dim=16, heads=2, depth=1, max_seq_len=16, causal=False), lambda: ids(2, 16, 64), _words


@network("nystrom_attention", "nystrom_attention")
def _nystrom():
    from nystrom_attention import Nystromformer
    return Nystromformer(dim=16, dim_head=8, heads=2, depth=1, num_landmarks=4, pinv_iterations=2), lambda: (torch.randn(2, 12, 16),), squares


@network("local_attention", "local_attention")
def _local():
    from local_attention import LocalTransformer
    return LocalTransformer(num_tokens=64, dim=16, depth=1, max_seq_len=16, local_attn_window_size=4, heads=2, dim_head=8), \
        lambda: ids(2, 16, 64), _words


@network("g_mlp_pytorch", "g_mlp")
def _gmlp():
    from g_mlp_pytorch import gMLP
    return gMLP(num_tokens=64, dim=16, depth=2, seq_len=12, causal=True), lambda: ids(2, 12, 64), _words


@network("mlp_mixer_pytorch", "mlp_mixer")
def _mixer():
    from mlp_mixer_pytorch import MLPMixer
    return MLPMixer(image_size=32, channels=3, patch_size=8, dim=16, depth=2, num_classes=5), lambda: (image(2), classes(5)), labelled


@network("perceiver_pytorch", "perceiver")
def _perceiver():
    from perceiver_pytorch import Perceiver
    return Perceiver(input_channels=3, input_axis=2, num_freq_bands=2, max_freq=4.0, depth=2, num_latents=4, latent_dim=16, cross_heads=1,
                     latent_heads=2, cross_dim_head=8, latent_dim_head=8, num_classes=5, weight_tie_layers=True), \
        lambda: (torch.randn(2, 8, 8, 3), classes(5)), labelled


@network("halonet_pytorch", "halonet")
def _halonet():
    from halonet_pytorch import HaloAttention
    return HaloAttention(dim=8, block_size=4, halo_size=2, dim_head=4, heads=2), lambda: (torch.randn(2, 8, 8, 8),), squares


@network("lambda_networks", "lambda_networks")
def _lambda():
    from lambda_networks import LambdaLayer
    return LambdaLayer(dim=8, dim_out=8, r=5, dim_k=4, heads=2, dim_u=1), lambda: (torch.randn(2, 8, 8, 8),), squares


@network("timesformer_pytorch", "timesformer")
def _timesformer():
    from timesformer_pytorch import TimeSformer
    return TimeSformer(dim=16, image_size=16, patch_size=8, num_frames=4, num_classes=5, depth=1, heads=2, dim_head=8), \
        lambda: (torch.randn(2, 4, 3, 16, 16), classes(5)), labelled


@network("tab_transformer_pytorch", "ft_transformer")
def _ft():
    from tab_transformer_pytorch import FTTransformer
    model = FTTransformer(categories=(4, 3, 5), num_continuous=3, dim=8, depth=1, heads=2, dim_out=5)
    return model, lambda: (torch.randint(0, 3, (4, 3)), torch.randn(4, 3), classes(5, 4)), labelled


@network("iTransformer", "itransformer")
def _itransformer():
    from iTransformer import iTransformer
    model = iTransformer(num_variates=4, lookback_len=12, dim=16, depth=1, heads=2, dim_head=8, pred_length=4, num_tokens_per_variate=1)
    return model, lambda: (torch.randn(2, 12, 4),), squares


@network("iTransformer", "itransformer/normalised")
def _itransformer_norm():
    from iTransformer import iTransformer
    model = iTransformer(num_variates=4, lookback_len=12, dim=16, depth=1, heads=2, dim_head=8, pred_length=4, use_reversible_instance_norm=True)
    return model, lambda: (torch.randn(2, 12, 4),), squares


@network("conformer", "conformer")
def _conformer():
    from conformer import Conformer
    return Conformer(dim=16, depth=1, dim_head=8, heads=2, conv_kernel_size=5), lambda: (torch.randn(2, 12, 16),), squares


@network("axial_attention", "axial_attention")
def _axial():
    from axial_attention import AxialImageTransformer
    return AxialImageTransformer(dim=8, depth=1, heads=2, reversible=False), lambda: (torch.randn(2, 8, 4, 4),), squares


@network("mixture_of_experts", "mixture_of_experts")
def _moe():
    from mixture_of_experts import MoE
    return MoE(dim=8, num_experts=4, hidden_dim=16, second_policy_train="all", second_policy_eval="all"), lambda: torch.randn(2, 8, 8), \
        lambda m, x: (lambda o: o[0].square().mean() + o[1])(m(x))


@network("soft_moe_pytorch", "soft_moe")
def _soft_moe():
    from soft_moe_pytorch import SoftMoE
    return SoftMoE(dim=8, seq_len=8, num_experts=4), lambda: (torch.randn(2, 8, 8),), squares


@network("siren_pytorch", "siren")
def _siren():
    from siren_pytorch import SirenNet
    return SirenNet(dim_in=2, dim_hidden=16, dim_out=3, num_layers=3, w0_initial=30.0), lambda: (torch.rand(16, 2),), squares


@network("egnn_pytorch", "egnn")
def _egnn():
    from egnn_pytorch import EGNN_Network
    model = EGNN_Network(num_tokens=8, dim=8, depth=2, num_nearest_neighbors=3, norm_coors=True, coor_weights_clamp_value=2.0)
    return model, lambda: (torch.randint(0, 8, (2, 6)), torch.randn(2, 6, 3)), lambda m, b: sum(o.square().mean() for o in m(*b))


class _Coded(torch.nn.Module):
    """A layer before a codebook and one behind it."""

    def __init__(self, codebook: torch.nn.Module):
        super().__init__()
        self.before, self.codebook, self.behind = torch.nn.Linear(8, 8), codebook, torch.nn.Linear(8, 8)

    def forward(self, x):
        found = self.codebook(self.before(x))
        return self.behind(found[0]), found[-1].sum() if isinstance(found, tuple) and found[-1].is_floating_point() else 0.0


CODEBOOKS: dict[str, tuple[str, dict[str, Any]]] = {
    "vq": ("VectorQuantize", {"dim": 8, "codebook_size": 16, "decay": 0.8, "commitment_weight": 1.0}),
    "vq-cosine": ("VectorQuantize", {"dim": 8, "codebook_size": 16, "use_cosine_sim": True}),
    "vq-learnt": ("VectorQuantize", {"dim": 8, "codebook_size": 16, "learnable_codebook": True, "ema_update": False}),
    "residual": ("ResidualVQ", {"dim": 8, "codebook_size": 16, "num_quantizers": 2}),
    "fsq": ("FSQ", {"levels": [4, 3], "dim": 8}), "lfq": ("LFQ", {"codebook_size": 16, "dim": 8, "entropy_loss_weight": 0.1}),
    "sim-vq": ("SimVQ", {"dim": 8, "codebook_size": 16}),
}


def _codebook(head: str, given: dict[str, Any]):
    import vector_quantize_pytorch
    return _Coded(getattr(vector_quantize_pytorch, head)(**given)), lambda: torch.randn(2, 6, 8), \
        lambda m, x: (lambda o: (o[0] - x).square().mean() + o[1])(m(x))


for _name, (_head, _given) in CODEBOOKS.items():
    enter("vector_quantize_pytorch", f"vector_quantize/{_name}", lambda h=_head, g=_given: _codebook(h, g))

