"""The page of HTML reports (web/report): its types, its unit tests, and itself in headless Chromium.

Skipped where node, the page's packages (npm ci in web/report) or Chromium are missing. What reports hold: test_report.py.
"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
from lowtide_cli import narrow_unet, run

PAGE = pathlib.Path(__file__).parents[2] / "web" / "report"
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
    result = subprocess.run([node, *arguments], cwd=PAGE, capture_output=True, text=True, timeout=300,
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
    assert passed(run_node(node, "--test", "--test-reporter=tap", "browser/page.test.mjs")) >= 11


def test_a_report_of_the_tool_opens(node, tmp_path):
    """Two plans beside one another, one of which moves tensors, as `lowtide report` writes them."""
    if not has_chromium():
        pytest.skip("chromium is not installed")
    step = [narrow_unet(tmp_path / "net.onnx"), "--train", "--dim", "batch=2"]
    tight = ["--budget", "70%", "--effort", "0.1", "--swap", "host", "--link", "1GiB/s"]
    for name, options in [("loose.lt", []), ("tight.lt", tight)]:
        made = run("plan", *step, *options, "-o", tmp_path / name)
        assert made.returncode == 0, made.stderr
    report = run("report", tmp_path / "tight.lt", "--beside", tmp_path / "loose.lt", "-o", tmp_path / "report.html")
    if "built without the page" in report.stderr:
        pytest.skip("lowtide was built without the page")
    assert report.returncode == 0, report.stderr
    run_node(node, "scripts/build.mjs")
    tests = run_node(node, "--test", "--test-reporter=tap", "--test-name-pattern", "opens without an error", "browser/page.test.mjs",
                     environment={"LOWTIDE_REPORTS": str(tmp_path / "report.html")})
    assert passed(tests) >= 1
