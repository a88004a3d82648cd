"""The page of HTML reports (web/report): its types, its unit tests, and itself in headless Chromium.

Skipped where node, the page's packages (npm ci in web/report) or Chromium are missing. What reports hold: test_report.py.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from lowtide_cli import narrow_unet, run, run_json

PAGE = pathlib.Path(__file__).parents[2] / "web" / "report"
MODELS = pathlib.Path(__file__).parents[2] / "models"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def node() -> str:
    """Node, with the page's packages installed; they are fetched where npm is there."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None:
        pytest.skip("node is not installed")
    if not (PAGE / "node_modules" / "playwright-core").exists():
        if npm is None:
            pytest.skip("npm is not installed, and web/report/node_modules is not there")
        installed = subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=PAGE, capture_output=True, text=True)
        if installed.returncode != 0:
            pytest.skip(f"npm ci failed in web/report: {installed.stderr.strip().splitlines()[-1:]}")
    return node


def has_chromium() -> bool:
    return bool(os.environ.get("LOWTIDE_CHROMIUM")) or any(shutil.which(name) for name in CHROMIUM)


def run_node(node: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    result = subprocess.run([node, *arguments], cwd=PAGE, capture_output=True, text=True, timeout=500,
                            env=os.environ | (environment or {}))
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    return result.stdout


def passed(output: str) -> int:
    return sum(int(number) for number in re.findall(r"^# pass (\d+)", output, re.MULTILINE))


def test_its_types_and_units(node):
    run_node(node, "node_modules/typescript/bin/tsc")
    assert passed(run_node(node, "scripts/test_unit.mjs")) > 20


def test_it_is_one_file_that_loads_nothing(node):
    run_node(node, "scripts/build.mjs")
    page = (PAGE / "dist" / "report.html").read_text()
    assert page.count("@LOWTIDE_REPORT@") == 1
    assert "default-src 'none'" in page and "unsafe-inline" not in page
    loads = re.findall(r"""<(?:script|img|link|iframe)[^>]*\b(?:src|href)\s*=\s*["']?([^"'\s>]+)""", page)
    assert loads == ["data:,"]
    for library in ("d3-zoom", "d3-scale", "flatbush"):
        assert re.search(rf"^{library} [\d.]+ \(ISC\)$", page, re.MULTILINE), f"the licence of {library} is not in the page"


def test_it_works_in_a_browser(node):
    if not has_chromium():
        pytest.skip("chromium is not installed")
    run_node(node, "scripts/build.mjs")
    assert passed(run_node(node, "--test", "--test-reporter=tap", "browser/page.test.mjs")) >= 20


@pytest.mark.skipif("LOWTIDE_LONG" not in os.environ, reason="a long check (LOWTIDE_LONG)")
def test_it_looks_right_at_each_width(node):
    if not has_chromium():
        pytest.skip("chromium is not installed")
    run_node(node, "scripts/build.mjs")
    assert passed(run_node(node, "--test", "--test-reporter=tap", "browser/look.test.mjs")) >= 16


def test_a_report_of_the_tool_opens(node, tmp_path):
    """Two plans beside one another, one of which moves tensors, as `lowtide report` writes them."""
    if not has_chromium():
        pytest.skip("chromium is not installed")
    step = [narrow_unet(tmp_path / "net.onnx"), "--train", "--dim", "batch=2"]
    tight = ["--budget", "70%", "--effort", "0.1", "--swap", "host", "--link", "1GiB/s"]
    for name, options in [("loose.lt", []), ("tight.lt", tight)]:
        made = run("plan", *step, *options, "-o", tmp_path / name)
        assert made.returncode == 0, made.stderr
    report = report_of(tmp_path / "tight.lt", "--beside", tmp_path / "loose.lt")
    run_node(node, "scripts/build.mjs")
    assert opens(node, [report]) == 1


def opens(node: str, reports: list[pathlib.Path], within_ms: int | None = None) -> int:
    """How many reports of the tool open and answer (web/report/browser/real.test.mjs); all of them, or a test fails."""
    environment = {"LOWTIDE_REPORTS": ",".join(map(str, reports))} | ({"LOWTIDE_OPENS_IN": str(within_ms)} if within_ms else {})
    output = run_node(node, "--test", "--test-reporter=tap", "browser/real.test.mjs", environment=environment)
    print("\n".join(re.findall(r"^# .* bytes, .*$", output, re.MULTILINE)))
    return passed(output)


def report_of(plan: pathlib.Path, *options) -> pathlib.Path:
    """The plan's report; the test is skipped where lowtide was built without the page."""
    target = plan.with_suffix(".html")
    made = run("report", plan, *options, "-o", target)
    if "built without the page" in made.stderr:
        pytest.skip("lowtide was built without the page")
    assert made.returncode == 0, made.stderr
    return target


def planned(target: pathlib.Path, model: pathlib.Path, *options) -> pathlib.Path:
    made = run("plan", model, "--train", "--loss", "cross-entropy", "--optimizer", "adamw", *options, "-o", target, "--quiet")
    assert made.returncode == 0, made.stderr
    return target


def test_a_report_of_gpt2_is_small_opens_fast_and_folds_its_layers(node, tmp_path):
    if not has_chromium():
        pytest.skip("chromium is not installed")
    plan = planned(tmp_path / "gpt2.lt", MODELS / "gpt2.onnx", "--dim", "batch=1", "--dim", "seq=64")
    told = run_json("report", plan)["plans"][0]
    # The first of the twelve makes the mask that all read, so it is another; the others are equal, and one row.
    (layers,) = [row for row in told["module_tree"] if row["times"] > 1 and told["module_tree"][row["parent"]]["times"] == 1]
    assert layers["paths"] == [f"transformer.h.{layer}" for layer in range(1, 12)]
    of_layers = [tensor for tensor, module in enumerate(told["tensors"]["module"])
                 if any(f"{told['modules'][module]}.".startswith(f"{path}.") for path in layers["paths"])]
    assert layers["bytes"] == sum(told["tensors"]["bytes"][tensor] for tensor in of_layers)
    report = report_of(plan)
    assert report.stat().st_size < 3_000_000
    run_node(node, "scripts/build.mjs")
    assert opens(node, [report], within_ms=2000) == 1


@pytest.mark.skipif("LOWTIDE_LONG" not in os.environ, reason="a long check (LOWTIDE_LONG)")
def test_reports_of_large_steps_open(node, tmp_path):
    """ResNet-50 at 600 and 200 MiB, GPT-2 within 1,600 MiB with swap, a front of it, and a step of more than 8,000 steps."""
    if not has_chromium():
        pytest.skip("chromium is not installed")
    resnet = [MODELS / "resnet50.onnx", "--dim", "batch=8", "--effort", "0.5"]
    loose = planned(tmp_path / "resnet-600.lt", *resnet, "--budget", "600MiB")
    tight = planned(tmp_path / "resnet-200.lt", *resnet, "--budget", "200MiB", "--swap", "host")
    gpt2 = [MODELS / "gpt2.onnx", "--dim", "batch=1", "--dim", "seq=64", "--swap", "host"]
    made = planned(tmp_path / "gpt2.lt", *gpt2, "--budget", "1600MiB", "--effort", "0.5")
    large = planned(tmp_path / "nasnet.lt", deep_nasnet(tmp_path), "--dim", "batch=4")
    steps = run_json("report", large)["plans"][0]["steps"]["kind"]
    assert len(steps) > 8000
    swept = run("sweep", *gpt2, "--train", "--loss", "cross-entropy", "--optimizer", "adamw", "--budgets", "1600MiB..1900MiB:10",
                "--effort", "0.1", "--plans", "-o", tmp_path / "front")
    assert swept.returncode == 0, swept.stderr
    reports = [report_of(loose), report_of(tight, "--beside", loose), report_of(made), report_of(large),
               report_of(tmp_path / "front.lt", "--front", tmp_path / "front.jsonl")]
    for report in reports[:3] + reports[4:]:
        assert report.stat().st_size < 3_000_000, report.name
    front = run_json("report", tmp_path / "front.lt", "--front", tmp_path / "front.jsonl")["front"]
    assert front["plans_left_out"] > 0 and sum(point["plan"] >= 0 for point in front["points"]) >= 3
    run_node(node, "scripts/build.mjs")
    assert opens(node, reports) == len(reports)


def deep_nasnet(folder: pathlib.Path) -> pathlib.Path:
    """A NASNet of more cells than PNASNet-5-Large has, as its cells are smaller: a step of more than 8,000 steps."""
    sys.path.insert(0, str(MODELS))
    import nasnet

    return nasnet.write(0, folder, nasnet.Size(cells=12))
