"""Images, sound, several kinds together and series, of transformers."""

from __future__ import annotations

from typing import Any

import torch
from common import by_itself, classes, enter, first, ids, image, network
from transformers_tiny import config_of, model_of

IMAGES: list[tuple[str, str, dict[str, Any]]] = [
    ("vit", "ViTForImageClassification", {}), ("deit", "DeiTForImageClassification", {}), ("beit", "BeitForImageClassification", {}),
    ("swin", "SwinForImageClassification", {"embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 2, "patch_size": 4}),
    ("swinv2", "Swinv2ForImageClassification", {"embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 2, "patch_size": 4}),
    ("convnext", "ConvNextForImageClassification", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 4}),
    ("convnextv2", "ConvNextV2ForImageClassification", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 4}),
    ("resnet", "ResNetForImageClassification", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}),
    ("regnet", "RegNetForImageClassification", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 8}),
    ("efficientnet", "EfficientNetForImageClassification", {
        "hidden_dim": 320, "width_coefficient": 0.25, "depth_coefficient": 0.3}), ("levit", "LevitForImageClassification", {
            "hidden_sizes": [16, 16, 16], "num_attention_heads": [2, 2, 2], "depths": [1, 1, 1], "key_dim": [4, 4, 4], "image_size": 64,
            "patch_size": 16}),
    ("mobilenet_v1", "MobileNetV1ForImageClassification", {"depth_multiplier": 0.25, "min_depth": 4}),
    ("mobilenet_v2", "MobileNetV2ForImageClassification", {"depth_multiplier": 0.25, "min_depth": 4}),
    ("mobilevit", "MobileViTForImageClassification", {"hidden_sizes": [16, 20, 24], "neck_hidden_sizes": [8, 8, 16, 16, 16, 16, 32],
                                                      "num_attention_heads": 2, "image_size": 32, "patch_size": 2}),
    ("poolformer", "PoolFormerForImageClassification", {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1]}),
    ("pvt", "PvtForImageClassification", {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 2]}),
    ("segformer", "SegformerForImageClassification", {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 2, 2],
                                                      "patch_sizes": [7, 3, 3, 3]}),
    ("focalnet", "FocalNetForImageClassification", {"embed_dim": 8, "depths": [1, 1], "hidden_sizes": [8, 16], "focal_levels": [2, 2],
                                                    "focal_windows": [3, 3], "patch_size": 4}),
    ("cvt", "CvtForImageClassification", {"embed_dim": [8, 8, 16], "num_heads": [1, 1, 2], "depth": [1, 2, 3]}),
    ("dinov2", "Dinov2ForImageClassification", {}), ("bit", "BitForImageClassification", {"embedding_size": 8, "hidden_sizes": [8, 16],
                                                                                        "depths": [1, 1], "num_groups": 4}),
    ("hiera", "HieraForImageClassification", {"embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "image_size": [32, 32], "patch_size": [4, 4],
                                              "patch_stride": [4, 4], "patch_padding": [0, 0], "query_stride": [2, 2], "masked_unit_size": [2, 2],
                                              "num_query_pool": 1}),
    ("swiftformer", "SwiftFormerForImageClassification", {"embed_dims": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}),
    ("siglip", "SiglipForImageClassification", {}), ("imagegpt", "ImageGPTForImageClassification", {}),
]
SOUNDS: list[tuple[str, str, dict[str, Any]]] = [
    (kind, head, {"conv_dim": [8, 8], "conv_kernel": [10, 3], "conv_stride": [5, 2], "num_conv_pos_embeddings": 4,
                  "num_conv_pos_embedding_groups": 2, "num_feat_extract_layers": 2, "classifier_proj_size": 8, "mask_time_prob": 0.0,
                  "apply_spec_augment": False, "tdnn_dim": [8], "tdnn_kernel": [3], "tdnn_dilation": [1], **more})
    for kind, head, more in (
        ("wav2vec2", "Wav2Vec2ForSequenceClassification", {}), ("hubert", "HubertForSequenceClassification", {}),
        ("wavlm", "WavLMForSequenceClassification", {}), ("unispeech", "UniSpeechForSequenceClassification", {}),
        ("data2vec-audio", "Data2VecAudioForSequenceClassification", {}), ("sew", "SEWForSequenceClassification", {"squeeze_factor": 2}),
        ("wav2vec2-conformer", "Wav2Vec2ConformerForSequenceClassification", {}))]


def _classified(kind: str, head: str, given: dict[str, Any]):
    model = model_of(kind, head, num_labels=5, **given)
    side = given.get("image_size", 32)
    side = side[0] if isinstance(side, list) else side

    def batch():
        if kind == "imagegpt":
            return {"input_ids": ids(2, 16), "labels": classes(5)}
        return {"pixel_values": image(2, side), "labels": classes(5)}
    return model, batch, by_itself


def _heard(kind: str, head: str, given: dict[str, Any]):
    return model_of(kind, head, num_labels=5, **given), lambda: {"input_values": torch.randn(2, 400), "labels": classes(5)}, by_itself


for _kind, _head, _given in IMAGES:
    enter("transformers", f"transformers/{_kind}", lambda k=_kind, h=_head, g=_given: _classified(k, h, g))
for _kind, _head, _given in SOUNDS:
    enter("transformers", f"transformers/{_kind}", lambda k=_kind, h=_head, g=_given: _heard(k, h, g))


@network("transformers", "transformers/wav2vec2-ctc")
def _ctc():
    model = model_of("wav2vec2", "Wav2Vec2ForCTC", **SOUNDS[0][2], ctc_loss_reduction="mean")
    return model, lambda: {"input_values": torch.randn(2, 400), "labels": torch.randint(3, 90, (2, 5))}, by_itself


@network("transformers", "transformers/whisper")
def _whisper():
    model = model_of("whisper", "WhisperForConditionalGeneration", num_mel_bins=8, max_source_positions=20, max_target_positions=16)
    return model, lambda: {"input_features": torch.randn(2, 8, 40), "labels": ids(2, 8)}, by_itself


@network("transformers", "transformers/speech_to_text")
def _speech_to_text():
    model = model_of("speech_to_text", "Speech2TextForConditionalGeneration", input_feat_per_channel=8, max_source_positions=64,
                     max_target_positions=32, conv_channels=8)
    return model, lambda: {"input_features": torch.randn(2, 40, 8), "labels": ids(2, 8)}, by_itself


@network("transformers", "transformers/audio-spectrogram-transformer")
def _spectrogram():
    model = model_of("audio-spectrogram-transformer", "ASTForAudioClassification", num_labels=5, max_length=32, num_mel_bins=16, frequency_stride=8,
                     time_stride=8)
    return model, lambda: {"input_values": torch.randn(2, 32, 16), "labels": classes(5)}, by_itself


@network("transformers", "transformers/clip")
def _clip():
    model = model_of("clip", "CLIPModel")
    return model, lambda: {"input_ids": ids(3, 8), "pixel_values": image(3), "return_loss": True}, by_itself


@network("transformers", "transformers/siglip-pairs")
def _siglip():
    model = model_of("siglip", "SiglipModel", text_config={"projection_size": 16})
    return model, lambda: {"input_ids": ids(3, 8), "pixel_values": image(3), "return_loss": True}, by_itself


@network("transformers", "transformers/chinese_clip")
def _chinese_clip():
    model = model_of("chinese_clip", "ChineseCLIPModel")
    return model, lambda: {"input_ids": ids(3, 8), "pixel_values": image(3), "return_loss": True}, by_itself


@network("transformers", "transformers/clipseg")
def _clipseg():
    model = model_of("clipseg", "CLIPSegForImageSegmentation", extract_layers=[0, 1], reduce_dim=8, decoder_num_attention_heads=2,
                     decoder_intermediate_size=16)
    return model, lambda: {"input_ids": ids(2, 8), "pixel_values": image(2), "labels": torch.rand(2, 32, 32).round()}, by_itself


@network("transformers", "transformers/blip-pairs")
def _blip():
    model = model_of("blip", "BlipForConditionalGeneration")
    return model, lambda: {"input_ids": ids(2, 8), "pixel_values": image(2), "labels": ids(2, 8)}, by_itself


@network("transformers", "transformers/vilt")
def _vilt():
    model = model_of("vilt", "ViltForQuestionAnswering", num_labels=5, max_image_length=-1)
    return model, lambda: {"input_ids": ids(2, 8), "pixel_values": image(2), "pixel_mask": torch.ones(2, 32, 32, dtype=torch.long),
                           "labels": torch.rand(2, 5)}, by_itself


@network("transformers", "transformers/visual_bert")
def _visual_bert():
    model = model_of("visual_bert", "VisualBertForQuestionAnswering", num_labels=5, visual_embedding_dim=8)
    return model, lambda: {"input_ids": ids(2, 8), "attention_mask": torch.ones(2, 8, dtype=torch.long), "visual_embeds": torch.randn(2, 3, 8),
                           "visual_attention_mask": torch.ones(2, 3, dtype=torch.long), "labels": torch.rand(2, 5)}, by_itself


_SMALL = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


@network("transformers", "transformers/llava")
def _llava():
    model = model_of("llava", "LlavaForConditionalGeneration", image_token_index=95, image_token_id=95,
                     text_config={"model_type": "llama", "vocab_size": 100, "num_key_value_heads": 2, **_SMALL},
                     vision_config={"model_type": "clip_vision_model", "image_size": 32, "patch_size": 8, **_SMALL}, vision_feature_layer=-1)

    def batch():
        words = ids(2, 24)
        words[:, 2:18] = 95
        return {"input_ids": words, "pixel_values": image(2), "labels": words.clone()}
    return model, batch, by_itself


@network("transformers", "transformers/vit_mae")
def _mae():
    model = model_of("vit_mae", "ViTMAEForPreTraining", decoder_num_hidden_layers=1, decoder_num_attention_heads=2, decoder_intermediate_size=16)
    return model, lambda: {"pixel_values": image(2)}, by_itself


@network("transformers", "transformers/segformer-masks")
def _segformer_masks():
    model = model_of("segformer", "SegformerForSemanticSegmentation", num_labels=5, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1],
                     num_attention_heads=[1, 1, 2, 2], patch_sizes=[7, 3, 3, 3], decoder_hidden_size=8)
    return model, lambda: {"pixel_values": image(2), "labels": classes(5, 2, 32, 32)}, by_itself


@network("transformers", "transformers/dpt")
def _dpt():
    model = model_of("dpt", "DPTForDepthEstimation", num_hidden_layers=4, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 8, 8],
                     fusion_hidden_size=8, is_hybrid=False, readout_type="project", reassemble_factors=[4, 2, 1, 0.5])
    return model, lambda: {"pixel_values": image(2)}, lambda m, b: m(**b).predicted_depth.square().mean()


@network("transformers", "transformers/yolos")
def _yolos():
    model = model_of("yolos", "YolosForObjectDetection", image_size=[32, 32], num_detection_tokens=4)
    return model, lambda: {"pixel_values": image(2)}, lambda m, b: (lambda o: o.logits.square().mean() + o.pred_boxes.square().mean())(m(**b))


@network("transformers", "transformers/videomae")
def _videomae():
    model = model_of("videomae", "VideoMAEForVideoClassification", num_labels=5, num_frames=4, tubelet_size=2)
    return model, lambda: {"pixel_values": torch.randn(2, 4, 3, 32, 32), "labels": classes(5)}, by_itself


@network("transformers", "transformers/timesformer")
def _timesformer():
    model = model_of("timesformer", "TimesformerForVideoClassification", num_labels=5, num_frames=4)
    return model, lambda: {"pixel_values": torch.randn(2, 4, 3, 32, 32), "labels": classes(5)}, by_itself


@network("transformers", "transformers/perceiver")
def _perceiver():
    model = model_of("perceiver", "PerceiverForMaskedLM", num_latents=4, d_latents=16, num_blocks=1, num_self_attends_per_block=1,
                     num_self_attention_heads=2, num_cross_attention_heads=2, qk_channels=16, v_channels=16, max_position_embeddings=16)
    return model, lambda: {"inputs": ids(2, 16), "labels": ids(2, 16)}, by_itself


@network("transformers", "transformers/time_series_transformer")
def _series():
    model = model_of("time_series_transformer", "TimeSeriesTransformerForPrediction", prediction_length=4, context_length=8, lags_sequence=[1, 2],
                     num_time_features=1)
    return model, lambda: {"past_values": torch.rand(2, 10), "past_time_features": torch.randn(2, 10, 1), "past_observed_mask": torch.ones(2, 10),
                           "future_values": torch.rand(2, 4), "future_time_features": torch.randn(2, 4, 1)}, by_itself


@network("transformers", "transformers/informer")
def _informer():
    model = model_of("informer", "InformerForPrediction", prediction_length=4, context_length=8, lags_sequence=[1, 2], num_time_features=1)
    return model, lambda: {"past_values": torch.rand(2, 10), "past_time_features": torch.randn(2, 10, 1), "past_observed_mask": torch.ones(2, 10),
                           "future_values": torch.rand(2, 4), "future_time_features": torch.randn(2, 4, 1)}, by_itself


@network("transformers", "transformers/autoformer")
def _autoformer():
    model = model_of("autoformer", "AutoformerForPrediction", prediction_length=4, context_length=8, label_length=4, lags_sequence=[1, 2], num_time_features=1,
                     moving_average=3)
    return model, lambda: {"past_values": torch.rand(2, 10), "past_time_features": torch.randn(2, 10, 1), "past_observed_mask": torch.ones(2, 10),
                           "future_values": torch.rand(2, 4), "future_time_features": torch.randn(2, 4, 1)}, by_itself


@network("transformers", "transformers/patchtst")
def _patchtst():
    model = model_of("patchtst", "PatchTSTForPrediction", num_input_channels=3, context_length=16, patch_length=4, patch_stride=4,
                     prediction_length=4)
    return model, lambda: {"past_values": torch.randn(2, 16, 3), "future_values": torch.randn(2, 4, 3)}, by_itself


@network("transformers", "transformers/patchtsmixer")
def _patchtsmixer():
    model = model_of("patchtsmixer", "PatchTSMixerForPrediction", num_input_channels=3, context_length=16, patch_length=4, patch_stride=4,
                     prediction_length=4)
    return model, lambda: {"past_values": torch.randn(2, 16, 3), "future_values": torch.randn(2, 4, 3)}, by_itself


@network("transformers", "transformers/decision_transformer")
def _decision():
    model = model_of("decision_transformer", "DecisionTransformerModel", state_dim=5, act_dim=2, max_ep_len=32)
    return model, lambda: {"states": torch.randn(2, 6, 5), "actions": torch.randn(2, 6, 2), "rewards": torch.randn(2, 6, 1),
                           "returns_to_go": torch.randn(2, 6, 1), "timesteps": torch.arange(6).repeat(2, 1),
                           "attention_mask": torch.ones(2, 6)}, lambda m, b: m(**b).action_preds.square().mean()


@network("transformers", "transformers/univnet")
def _univnet():
    import transformers
    model = transformers.UnivNetModel(config_of("univnet", model_in_channels=8, model_hidden_channels=8, num_mel_bins=8,
                                                resblock_kernel_sizes=[3], resblock_stride_sizes=[4], resblock_dilation_sizes=[[1, 3]],
                                                kernel_predictor_hidden_channels=8))
    return model, lambda: {"input_features": torch.randn(1, 6, 8), "noise_sequence": torch.randn(1, 6, 8)}, \
        lambda m, b: first(m(**b)).square().mean()


@network("transformers", "transformers/encodec")
def _encodec():
    model = model_of("encodec", "EncodecModel", num_filters=4, hidden_size=8, codebook_size=8, upsampling_ratios=[2, 2], num_lstm_layers=1,
                     num_residual_layers=1)
    return model, lambda: torch.randn(2, 1, 64), lambda m, x: m.decoder(m.encoder(x)).square().mean()
