"""Language models of transformers: causal, masked, from text to text; mixtures of experts, state spaces, recurrent ones."""

from __future__ import annotations

from typing import Any

from common import by_itself, enter, ids
from transformers_tiny import model_of

# model type, class, and what else its configuration is told
CAUSAL: list[tuple[str, str, dict[str, Any]]] = [
    ("gpt2", "GPT2LMHeadModel", {}), ("gpt_neo", "GPTNeoForCausalLM", {"attention_types": [[["global", "local"], 1]], "window_size": 4}),
    ("gpt_neox", "GPTNeoXForCausalLM", {}), ("gptj", "GPTJForCausalLM", {"rotary_dim": 4}), ("gpt_bigcode", "GPTBigCodeForCausalLM", {}),
    ("opt", "OPTForCausalLM", {"word_embed_proj_dim": 16}), ("bloom", "BloomForCausalLM", {}), ("mpt", "MptForCausalLM", {"max_seq_len": 64}),
    ("codegen", "CodeGenForCausalLM", {"rotary_dim": 4, "n_head": 4, "num_attention_heads": 4}), ("falcon", "FalconForCausalLM", {}),
    ("llama", "LlamaForCausalLM", {}), ("mistral", "MistralForCausalLM", {}), ("mixtral", "MixtralForCausalLM", {}),
    ("qwen2", "Qwen2ForCausalLM", {}), ("qwen2_moe", "Qwen2MoeForCausalLM", {"shared_expert_intermediate_size": 16}),
    ("qwen3", "Qwen3ForCausalLM", {}), ("qwen3_moe", "Qwen3MoeForCausalLM", {}), ("gemma", "GemmaForCausalLM", {}),
    ("gemma2", "Gemma2ForCausalLM", {}), ("gemma3_text", "Gemma3ForCausalLM", {}), ("phi", "PhiForCausalLM", {}),
    ("phi3", "Phi3ForCausalLM", {}), ("phimoe", "PhimoeForCausalLM", {}), ("cohere", "CohereForCausalLM", {}),
    ("cohere2", "Cohere2ForCausalLM", {}), ("olmo", "OlmoForCausalLM", {}), ("olmo2", "Olmo2ForCausalLM", {}),
    ("olmoe", "OlmoeForCausalLM", {}), ("stablelm", "StableLmForCausalLM", {}), ("starcoder2", "Starcoder2ForCausalLM", {}),
    ("granite", "GraniteForCausalLM", {}), ("granitemoe", "GraniteMoeForCausalLM", {}), ("deepseek_v2", "DeepseekV2ForCausalLM", {}),
    ("deepseek_v3", "DeepseekV3ForCausalLM", {"head_dim": 4}),
    ("glm", "GlmForCausalLM", {}), ("glm4", "Glm4ForCausalLM", {}), ("gpt_oss", "GptOssForCausalLM", {}),
    ("mamba", "MambaForCausalLM", {}), ("mamba2", "Mamba2ForCausalLM", {"num_heads": 4, "head_dim": 8, "n_groups": 1, "chunk_size": 4}),
    ("falcon_mamba", "FalconMambaForCausalLM", {}), ("jamba", "JambaForCausalLM", {"mamba_d_state": 4, "use_mamba_kernels": False,
                                                                                "attn_layer_period": 2, "attn_layer_offset": 1}),
    ("rwkv", "RwkvForCausalLM", {"attention_hidden_size": 16, "context_length": 16}), ("recurrent_gemma", "RecurrentGemmaForCausalLM",
                                                                                   {"lru_width": 16, "num_hidden_layers": 3}),
    ("xlnet", "XLNetLMHeadModel", {}), ("ctrl", "CTRLLMHeadModel", {"dff": 32}), ("openai-gpt", "OpenAIGPTLMHeadModel", {}),
    ("persimmon", "PersimmonForCausalLM", {}), ("nemotron", "NemotronForCausalLM", {}), ("diffllama", "DiffLlamaForCausalLM", {"num_key_value_heads": 2}),
    ("helium", "HeliumForCausalLM", {}), ("lfm2", "Lfm2ForCausalLM", {}), ("bamba", "BambaForCausalLM",
                                                                       {"mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 4,
                                                                        "mamba_chunk_size": 4, "attn_layer_indices": [1]}),
    ("zamba2", "Zamba2ForCausalLM", {"n_mamba_heads": 4, "mamba_d_state": 4, "chunk_size": 4, "layers_block_type": ["mamba", "hybrid"],
                                     "num_mem_blocks": 1}),
    ("moshi", "MoshiForCausalLM", {}), ("jetmoe", "JetMoeForCausalLM", {"kv_channels": 8}), ("biogpt", "BioGptForCausalLM", {}),
    ("xglm", "XGLMForCausalLM", {"attention_heads": 2}), ("reformer", "ReformerModelWithLMHead", {
        "attn_layers": ["local", "lsh"], "axial_pos_shape": [4, 4], "axial_pos_embds_dim": [8, 8], "attention_head_size": 8, "is_decoder": True,
        "local_attn_chunk_length": 4, "lsh_attn_chunk_length": 4, "feed_forward_size": 32, "num_buckets": 2, "hash_seed": 0}),
]
MASKED: list[tuple[str, str, dict[str, Any]]] = [
    ("bert", "BertForMaskedLM", {}), ("roberta", "RobertaForMaskedLM", {}), ("albert", "AlbertForMaskedLM", {}),
    ("electra", "ElectraForMaskedLM", {}), ("distilbert", "DistilBertForMaskedLM", {}), ("deberta", "DebertaForMaskedLM",
                                                                                     {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    ("deberta-v2", "DebertaV2ForMaskedLM", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    ("fnet", "FNetForMaskedLM", {"tpu_short_seq_length": 16}), ("mpnet", "MPNetForMaskedLM", {}), ("convbert", "ConvBertForMaskedLM", {}),
    ("nystromformer", "NystromformerForMaskedLM", {"num_landmarks": 4, "segment_means_seq_len": 16}), ("yoso", "YosoForMaskedLM", {}),
    ("longformer", "LongformerForMaskedLM", {}), ("big_bird", "BigBirdForMaskedLM", {"attention_type": "original_full"}),
    ("squeezebert", "SqueezeBertForMaskedLM", {"q_groups": 2, "k_groups": 2, "v_groups": 2, "post_attention_groups": 1,
                                               "intermediate_groups": 2, "output_groups": 2}),
    ("mobilebert", "MobileBertForMaskedLM", {"true_hidden_size": 16, "intra_bottleneck_size": 16}), ("esm", "EsmForMaskedLM",
                                                                                                 {"mask_token_id": 4}),
    ("ibert", "IBertForMaskedLM", {"quant_mode": False}), ("roformer", "RoFormerForMaskedLM", {}), ("funnel", "FunnelForMaskedLM",
                                                                                                {"block_sizes": [1, 1], "num_decoder_layers": 1}),
    ("rembert", "RemBertForMaskedLM", {"input_embedding_size": 16, "output_embedding_size": 16}), ("modernbert", "ModernBertForMaskedLM",
                                                                                               {"global_attn_every_n_layers": 2,
                                                                                                "local_attention": 4}),
    ("xmod", "XmodForMaskedLM", {"languages": ["en_XX"], "default_language": "en_XX"}), ("layoutlm", "LayoutLMForMaskedLM", {}),
    ("xlm", "XLMWithLMHeadModel", {}),
]
FROM_TEXT: list[tuple[str, str, dict[str, Any]]] = [
    ("t5", "T5ForConditionalGeneration", {}), ("mt5", "MT5ForConditionalGeneration", {}), ("umt5", "UMT5ForConditionalGeneration", {}),
    ("bart", "BartForConditionalGeneration", {}), ("mbart", "MBartForConditionalGeneration", {}), ("pegasus", "PegasusForConditionalGeneration", {}),
    ("marian", "MarianMTModel", {}), ("blenderbot", "BlenderbotForConditionalGeneration", {}), ("m2m_100", "M2M100ForConditionalGeneration", {}),
    ("switch_transformers", "SwitchTransformersForConditionalGeneration", {"expert_capacity": 8, "num_sparse_encoder_layers": 1,
                                                                           "num_sparse_decoder_layers": 1}),
    ("longt5", "LongT5ForConditionalGeneration", {"local_radius": 3}), ("led", "LEDForConditionalGeneration", {}),
    ("prophetnet", "ProphetNetForConditionalGeneration", {"num_encoder_attention_heads": 2, "num_decoder_attention_heads": 2, "ngram": 2}),
    ("pegasus_x", "PegasusXForConditionalGeneration", {"num_global_tokens": 2, "block_size": 4}), ("nllb-moe", "NllbMoeForConditionalGeneration",
                                                                                              {"encoder_sparse_step": 1, "decoder_sparse_step": 1}),
]


def _causal(kind: str, head: str, given: dict[str, Any]):
    def batch():
        words = ids(2, 16)
        return {"input_ids": words, "labels": words.clone()}
    return model_of(kind, head, **given), batch, by_itself


def _from_text(kind: str, head: str, given: dict[str, Any]):
    given = {"decoder_start_token_id": 1, **given}
    return model_of(kind, head, **given), lambda: {"input_ids": ids(2, 16), "labels": ids(2, 8)}, by_itself


for _kind, _head, _given in CAUSAL + MASKED:
    enter("transformers", f"transformers/{_kind}", lambda k=_kind, h=_head, g=_given: _causal(k, h, g))
for _kind, _head, _given in FROM_TEXT:
    enter("transformers", f"transformers/{_kind}", lambda k=_kind, h=_head, g=_given: _from_text(k, h, g))
