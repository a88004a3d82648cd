"""Architectures of transformers by their configurations: one table for all, each made as small as its configuration lets it.

A configuration has dozens of sizes, mostly under names that many share. TINY gives each such name a small value; of it a configuration (and
each one within it) takes what it knows, and a line of a table says the rest.
"""

from __future__ import annotations

from typing import Any

TINY: dict[str, Any] = {
    "vocab_size": 96, "hidden_size": 16, "d_model": 16, "n_embd": 16, "dim": 16, "embed_dim": 16, "embedding_size": 16, "emb_dim": 16,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 1, "decoder_layers": 1,
    "num_decoder_layers": 1, "num_encoder_layers": 1, "num_attention_heads": 2, "n_head": 2, "n_heads": 2, "num_heads": 2,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 32, "d_ff": 32, "d_kv": 8,
    "d_inner": 32, "head_dim": 8, "hidden_dim": 32, "ffn_dim": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32,
    "max_position_embeddings": 64, "n_positions": 64, "n_ctx": 64, "moe_intermediate_size": 16, "num_experts": 4,
    "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "sep_token_id": 2,
    "image_size": 32, "patch_size": 8, "num_channels": 3, "projection_dim": 8, "use_cache": False,
    "encoder_hidden_size": 16, "decoder_hidden_size": 16, "state_size": 4, "conv_kernel": 4, "time_step_rank": 2,
    "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8,
    "max_window_layers": 1, "sliding_window": 8, "attention_window": 4,
}
_NESTED = ("text_config", "vision_config", "audio_config", "encoder", "decoder", "backbone_config", "perceiver_config", "qformer_config")


def _taken(config_class: type, given: dict[str, Any]) -> dict[str, Any]:
    known, other_names = config_class().to_dict(), getattr(config_class, "attribute_map", {})
    found = {name: value for name, value in TINY.items() if (name in known or name in other_names) and other_names.get(name) not in given}
    for name, inner in getattr(config_class, "sub_configs", {}).items():
        said = given.get(name, {})
        if name in _NESTED and isinstance(inner, type) and not isinstance(said, bool) and hasattr(inner, "model_type") and inner.model_type:
            found[name] = {**_taken(inner, said), **said}
    return {**found, **{name: value for name, value in given.items() if name not in found or not isinstance(found[name], dict)}}


def config_of(kind: str, **given: Any) -> Any:
    """The small configuration of a model type."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    made = CONFIG_MAPPING[kind]
    return made(**_taken(made, given))


def model_of(kind: str, head: str, **given: Any) -> Any:
    """The model with `head` (a class of transformers), with weights drawn anew."""
    import transformers
    return getattr(transformers, head)(config_of(kind, **given))
