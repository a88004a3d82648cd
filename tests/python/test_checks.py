"""The repository's own checks find what they are there to find: each rule is broken once in a small made-up tree."""

import layering_test
import pytest
import size_test
import tested_test


@pytest.fixture
def tree(tmp_path):
    def write(path: str, text: str = ""):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    write("cmake/layers.txt", "# comment\nbase:\nplan: base\nexec/cpu: base plan\nio: base\ntools: base io\n")
    write("src/base/id.h", "#include <vector>\n")
    write("src/plan/plan.h", '#include "base/id.h"\n#include <fmt/core.h>\n')
    write("src/exec/cpu/use.h", '#include "base/id.h"\n#include "plan/plan.h"\n')
    write("src/io/use.h", '#include "base/id.h"\n')
    write("tools/use.h", '#include "base/id.h"\n#include "io/use.h"\n')
    for folder in ("base", "plan", "exec/cpu", "io"):
        write(f"src/{folder}/README.md", "# text\n")
    write.root = tmp_path
    return write


def test_a_clean_tree_passes(tree):
    assert layering_test.check(tree.root) == []
    assert size_test.check(tree.root) == []


@pytest.mark.parametrize(
    "path, text, message",
    [
        ("src/base/a.cc", '#include "plan/plan.h"', "base may not include plan"),
        ("src/io/a.cc", '#include "plan/plan.h"', "io may not include plan"),
        ("src/exec/cpu/a.cc", '#include "io/a.h"', "exec/cpu may not include io"),
        ("tools/a.cc", '#include "plan/plan.h"', "tools may not include plan"),
        ("src/io/a.cc", '#include "tools/commands.h"', "io may not include tools"),
        ("src/plan/a.cc", '#include "id.h"', "not a header of a folder"),
        ("src/other/a.cc", '#include "base/id.h"', "its folder is not in cmake/layers.txt"),
        ("src/plan/a.cc", "#include <oneapi/dnnl/dnnl.hpp>", "dnnl may be included only in"),
        ("src/exec/cpu/a.h", "  #  include <oneapi/dnnl/dnnl.hpp>", "dnnl may be included only in"),
        ("src/io/a.h", '#include "io/onnx.pb.h"', "protobuf may be included only in"),
        ("src/plan/a.h", "#include <nlohmann/json.hpp>", "json may be included only in"),
        ("src/plan/a.cc", "#include <boost/any.hpp>", "neither standard nor listed"),
        ("src/plan/a.cc", "#include <gtest/gtest.h>", "gtest may be included only in"),
        ("include/lowtide/a.h", '#include "base/id.h"', "a public header includes only public headers"),
    ],
)
def test_each_forbidden_include_is_found(tree, path, text, message):
    tree(path, f"\n{text}\n")
    problems = layering_test.check(tree.root)
    assert len(problems) == 1 and message in problems[0] and problems[0].startswith(f"{path}:2:")


def test_a_call_for_a_bound_that_is_not_listed_is_found(tree):
    tree("src/plan/a.cc", "TimeBound time_bound(int);\nauto a = remat::time_bound(1), b = time_bound(2);\n")
    tree("src/plan/a_test.cc", "auto c = closure_cut(3);\n")
    assert layering_test.check(tree.root) == ["src/plan/a.cc: 2 calls of time_bound, src/remat/README.md says 0"]
    tree("src/remat/README.md", "| `src/plan/a.cc` | 2 `time_bound` | twice |\n| `src/io/b.cc` | 1 `closure_cut` | no more |\n")
    assert layering_test.check(tree.root) == ["src/io/b.cc: 0 calls of closure_cut, src/remat/README.md says 1"]


def test_a_permission_that_nobody_uses_is_found(tree):
    tree("src/io/use.h", "#include <vector>\n")
    tree("src/io/a_test.cc", '#include "base/id.h"\n')
    assert layering_test.check(tree.root) == ["cmake/layers.txt: io may include base, and no file of it does"]


def test_only_one_place_adds_ops(tree):
    for allowed in ("src/plan/a_test.cc", "src/base/a.cc"):
        tree(allowed, "void add_op(int);\n")
    tree("src/plan/a_test.cc", "graph.add_op(op, {});\n")
    assert layering_test.check(tree.root) == []
    tree("src/plan/a.cc", "\nmade = graph_.add_op(op, {});\n")
    assert layering_test.check(tree.root) == ["src/plan/a.cc:2: adds an op by itself; ops::append is the one way"]


@pytest.mark.parametrize(
    "path, text",
    [
        ("src/exec/cpu/a.cc", '#include "plan/plan.h"\n#include "exec/cpu/b.h"\n#include <dnnl.hpp>'),
        ("src/exec/cpu/a.h", "// layering: seam to dnnl\n#include <dnnl.hpp>"),
        ("src/plan/a_test.cc", '#include "support/zoo.h"\n#include <gtest/gtest.h>\n#include <rapidcheck.h>'),
        ("src/io/a.cc", "#include <google/protobuf/message.h>\n#include <sys/stat.h>"),
        ("tools/a.cc", '#include "tools/commands.h"\n#include "io/a.h"\n#include <CLI/CLI.hpp>'),
    ],
)
def test_each_allowed_include_passes(tree, path, text):
    tree(path, text)
    assert layering_test.check(tree.root) == []


def test_a_second_seam_to_the_same_library_is_found(tree):
    for name in ("a", "b"):
        tree(f"src/exec/cpu/{name}.h", "// layering: seam to dnnl\n#include <dnnl.hpp>\n")
    assert ["is the seam to dnnl already" in p for p in layering_test.check(tree.root)] == [True]


def test_a_test_may_include_what_its_packages_link(tree):
    tree("src/base/a_test.cc", '#include "plan/plan.h"\n')
    assert len(layering_test.check(tree.root)) == 1
    tree("src/base/test_packages.cmake", "target_link_libraries(${lowtide_target} PRIVATE lowtide_plan)\n")
    assert layering_test.check(tree.root) == []


def test_what_serves_tests_alone_is_for_tests(tree):
    tree("src/base/testing/drawn.h", '#include "base/id.h"\n')
    tree("src/plan/testing/drawn.h", '#include "base/testing/drawn.h"\n')
    tree("src/io/a_test.cc", '#include "base/testing/drawn.h"\n#include "io/use.h"\n')
    assert layering_test.check(tree.root) == []
    assert size_test.check(tree.root) == []
    tree("src/plan/a.cc", '#include "base/testing/drawn.h"\n')
    assert layering_test.check(tree.root) == [
        "src/plan/a.cc:1: #include base/testing/drawn.h: what lies in testing/ is for tests alone"]


def test_a_header_that_only_tests_include_is_found(tree):
    tree("src/plan/oracle.h", "#include <vector>\n")
    tree("src/plan/oracle.cc", '#include "plan/oracle.h"\n')
    assert layering_test.check(tree.root) == []
    tree("fuzz/plan.cc", '#include "plan/oracle.h"\n')
    assert layering_test.check(tree.root) == [
        "src/plan/oracle.h: only tests include it; its place is the folder testing beside it"]
    tree("src/plan/a.cc", '#include "plan/oracle.h"\n')
    assert layering_test.check(tree.root) == []


def test_a_test_may_include_what_the_folders_below_may(tree):
    tree("cmake/layers.txt", "base:\nplan: base\nexec/cpu: base plan\nio: base\nrun: exec/cpu\ntools: base io\n")
    tree("src/run/README.md", "# text\n")
    tree("src/run/a.cc", '#include "exec/cpu/use.h"\n')
    tree("src/run/a_test.cc", '#include "plan/plan.h"\n')
    assert layering_test.check(tree.root) == []
    tree("src/run/a_test.cc", '#include "io/use.h"\n')
    assert len(layering_test.check(tree.root)) == 1


def test_a_cycle_in_the_list_is_found(tree):
    tree("cmake/layers.txt", "base: plan\nplan: base\n")
    assert any("base depends on plan, which is not above it" in p for p in layering_test.check(tree.root))


@pytest.mark.parametrize(
    "path, lines, too_many",
    [("src/plan/a.h", 300, 301), ("src/plan/a.cc", 600, 601), ("src/plan/a_test.cc", 800, 801)],
)
def test_line_limits(tree, path, lines, too_many):
    tree(path, "\n" * lines)
    assert size_test.check(tree.root) == []
    tree(path, "\n" * too_many)
    assert size_test.check(tree.root) == [f"{path}: {too_many} lines, the limit is {lines}"]


def test_a_line_of_cpp_has_its_columns(tree):
    tree("src/plan/README.md", "")
    tree("src/plan/a.h", "// " + "x" * 97 + "\n")
    assert size_test.check(tree.root) == []
    tree("src/plan/a.h", "\n// " + "x" * 98 + "\n")
    assert size_test.check(tree.root) == ["src/plan/a.h:2: longer than 100 columns"]


def test_large_files_and_missing_readmes_are_found(tree):
    tree("docs/big.bin", "x" * 1_000_001)
    tree("src/new/a.cc")
    tree("src/plan/README.md", "\n" * 41)
    tree("build/big.bin", "x" * 2_000_000)
    assert size_test.check(tree.root) == [
        "docs/big.bin: 1000001 bytes, the limit is 1000000",
        "src/new: no README.md",
        "src/plan/README.md: 41 lines, the limit is 40",
    ]


def test_a_header_whose_test_nobody_knows_is_found(tree):
    for test in ("src/base/id_test.cc", "src/io/other_test.cc", "tests/python/test_use.py", "src/plan/testing/draw.h"):
        tree(test, "\n")
    tree("src/io/use.h", "// Reads.\n//\n// Tests: other_test.cc, tests/python/test_use.py.\n#pragma once\n")
    tree("src/plan/plan.h", "// A plan.\n//\n// Tests: gone_test.cc.\n#pragma once\n")
    assert tested_test.check(tree.root) == [
        "src/exec/cpu/use.h: no use_test.cc beside it, and no line '// Tests: ...' says where its test is",
        "src/plan/plan.h: there is no test 'gone_test.cc', neither beside it nor from the root"]
