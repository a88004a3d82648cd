"""Networks in the styles of several exporters, beside ONNX Runtime (results, budgets, verified plans) and beside PyTorch
(gradients and updates). The quickest to make and to run that together have the most ops; `scripts/bench zoo` runs all."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

import zoo_cases  # noqa: E402
import zoo_judge  # noqa: E402
import zoo_training  # noqa: E402
from lowtide_cli import program, run, run_json  # noqa: E402

FORWARD = ["mobilenet_v2", "googlenet", "swin_script", "ssd", "yolo_script", "super_resolution", "crnn", "keyword_gru",
           "lstm_language_model", "plain_rnn", "bert_script", "deep_and_cross", "edge_convolution_script", "keras_mobilenet",
           "keras_squeeze_excite", "keras_segmenter", "keras_lstm", "keras_gru", "paddle_recognizer", "paddle_style",
           "scikit_classifier", "scikit_regressor", "quantized", "dynamically_quantized", "conditional",
           "static_mobilenet_v2", "static_keras_mobilenet", "dynamic_bert"]
WHOLE = ["resnet50"]  # of models/ itself, at full size; the others take longer
TRAINING = ["mobilenet_v2", "bert_script", "crnn"]
FILES_THAT_TRAIN = ["keras_squeeze_excite", "keras_segmenter", "keras_gru", "scikit_regressor"]
REFUSED = {"detector_with_suppression": "NonMaxSuppression"}


def judged(case: zoo_cases.Case) -> dict:
    program()
    return zoo_cases.judged(case, rounds=0, effort=0.05)


@pytest.mark.parametrize("name", FORWARD)
def test_results_are_those_of_onnx_runtime(name):
    verdict = judged(zoo_cases.zoo_case(name))
    assert verdict["status"] == "taken", verdict
    assert verdict["arena_bytes"] > 0 and "error" in verdict, verdict


@pytest.mark.parametrize("name", WHOLE)
def test_whole_models_give_onnx_runtime_s_results(name):
    verdict = judged(zoo_cases.model_case(name))
    assert verdict["status"] == "taken", verdict
    assert verdict["error"] > 0, verdict  # something was computed


@pytest.mark.parametrize("name", TRAINING)
def test_gradients_and_updates_are_those_of_pytorch(name):
    program()
    verdict = zoo_training.judged(zoo_training.of_the_zoo(name))
    assert verdict["status"] == "taken", verdict
    assert verdict["parameters"] > 0 and verdict["arena_bytes"] > 0, verdict


@pytest.mark.parametrize("name", FILES_THAT_TRAIN)
def test_files_without_a_network_train_as_their_nodes_in_pytorch(name):
    program()
    verdict = zoo_training.judged(zoo_training.of_the_zoo(name))
    assert verdict["status"] == "taken" and verdict["parameters"] > 3, verdict


def test_an_official_network_trains():
    program()
    path = next(path for path in zoo_cases.official_paths() if path.stem == "light_squeezenet")
    verdict = zoo_training.judged(zoo_training.of_a_file(zoo_cases.official_case(path)))
    assert verdict["status"] == "taken" and verdict["parameters"] == 52, verdict


def test_a_step_of_short_ops_has_plans_under_every_budget(tmp_path):
    """MobileNetV3's ops take microseconds: what a budget proves has to hold at that scale too. `plan` ends with an error for
    a plan that does not verify."""
    model = zoo_cases.zoo_path("mobilenet_v3", training=True)
    step = ["plan", model, "--train", "--dim", "batch=2", "--dropout", "off", "--threads", 1]
    free = run_json(*step)
    claimed = []
    for tenth in range(1, 10):
        budget = int(free["arena_bytes"] * (0.5 + tenth / 20))
        path = tmp_path / f"{tenth}.lt"
        claimed.append(run_json(*step, "--effort", 0.02, "--budget", budget, "-o", path)["lower_bound_seconds"])
        assert run("verify", path).returncode == 0
    assert claimed == sorted(claimed, reverse=True) and claimed[0] > free["once_seconds"], claimed


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_what_is_missing(name):
    verdict = judged(zoo_cases.zoo_case(name))
    assert verdict["status"] == "refused" and REFUSED[name] in verdict["reason"], verdict


def test_judges_that_disagree_are_told():
    case = zoo_cases.zoo_case("deep_and_cross")
    shifted = {name: values + 0.1 for name, values in case.exact.items()}
    verdict = judged(dataclasses.replace(case, exact=shifted))
    assert verdict["status"] == "wrong" and "'score'" in verdict["reason"], verdict


def test_a_wrong_result_is_found():
    path = zoo_cases.zoo_path("keras_mobilenet")
    trial = zoo_judge.Trial(str(path), {}, {}, {}, threads=1, effort=0.05, tolerance=None)
    right = np.float32([[1, 2], [3, 4]])
    trial.judge, trial.expected = object(), {"y": right}
    trial.compare({"y": right + np.float32(1e-6)}, "here")
    for wrong in ({"y": right + np.float32(1e-3)}, {"y": right.astype(np.float64)}, {"y": right.T[:1]}, {"z": right}, {}):
        with pytest.raises(zoo_judge.Wrong):
            trial.compare(wrong, "here")


@pytest.mark.parametrize("ours, reference, least, most", [
    (np.float32([1, 2]), np.float32([1, 2]), 0, 0),
    (np.float32([1, 2.002]), np.float32([1, 2]), 0.9e-3, 1.1e-3),
    (np.float32([1, 2]), np.float32([[1, 2]]), np.inf, np.inf),
    (np.float32([1, np.nan]), np.float32([1, np.nan]), 0, 0),
    (np.float32([1, np.inf]), np.float32([1, np.nan]), np.inf, np.inf),
    (np.float32([1, np.inf]), np.float32([1, 2]), np.inf, np.inf),
    (np.int64([3]), np.int64([4]), np.inf, np.inf),
    (np.bool_([True]), np.bool_([True]), 0, 0),
])
def test_errors_are_relative_to_the_largest_value(ours, reference, least, most):
    assert least <= zoo_judge.error(ours, reference) <= most


def test_the_zoo_covers_what_people_bring():
    from zoo import ZOO

    assert len(ZOO) >= 35
    assert {entry.opset for entry in ZOO.values()} >= {11, 13, 17, 20, 23}
    assert sum(entry.loss is not None for entry in ZOO.values()) >= 35
    assert all((entry.build is None) != (entry.write is None) for entry in ZOO.values())
