#!/usr/bin/env python3
"""Holds every #include below src/, include/ and tools/ against cmake/layers.txt and the third-party rules below.

    python3 tests/layering_test.py [ROOT]       prints one line per violation; exit code 1 if there is any

Rules:
 1. layers.txt is a list in which a folder depends only on folders above it, so there are no cycles.
 2. A file in src/F (or tools/, which is the folder "tools") includes "G/..." only if G is F itself or listed for F. A test in F may also include "support/...",
    what the folders below may include, and folders that F's test_packages.cmake links.
 2b. Every folder that a line of layers.txt lists is included by a file of that folder which is no test: no permission that
    nobody uses.
 2c. What lies in a folder "testing" (src/F/testing/...) is included by tests and other such files alone, so that no library of
    the product holds it; and a header that only tests include lies there (a benchmark is no test: it measures the product).
 3. Public headers include only each other, the standard library and the type under Result: nothing internal.
 4. A third-party header is included only where THIRD_PARTY allows it, so that a library can be replaced in one place.
    One header of a folder may be the seam to such a library if it carries the line "// layering: seam to NAME".
 5. Only ops::append adds ops to a graph (and what reads one from its text form or from JSON): what the outputs of an op are, and
    where in memory its views begin, is said in one place.
 6. Bounds on the time are dear, so they are asked for once and handed on: the calls are those that src/remat/README.md lists.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.MULTILINE)
SEAM = re.compile(r"^// layering: seam to (\w+)", re.MULTILINE)
ADDS_OP = re.compile(r"(?:\.|->)add_op\(")
MAY_ADD_OPS = re.compile(r"src/ops/append\.cc|src/ir/.*|src/io/graph_json\.cc|.*_test\.cc")
TEST_ONLY = re.compile(r"(?:src|tools)/.*_test\.cc|src/.*/testing/.*")
ASKS_BOUND = re.compile(r"(?<!TimeBound )(?<!CutBoundResult )\b(time_bound|closure_cut)\(")  # a call, no declaration
MAY_ASK = re.compile(r"^\| `([\w/]+\.cc)` \| (\d+) `(\w+)` \|", re.MULTILINE)
LINKED = re.compile(r"\blowtide_([a-z_]+)\b")

# name: (pattern of the header, pattern of the files that may include it)
THIRD_PARTY = {
    "dnnl": (r"(oneapi/dnnl/)?dnnl.*", r"src/exec/cpu/(.*\.cc|dnnl_seam\.h)"),
    "protobuf": (r"google/protobuf/.*|.*\.pb\.h", r"src/io/(.*\.cc|testing/test_models\.h)"),
    "json": (r"nlohmann/(?!json_fwd\.hpp).*", r"(src|tools|tests|bench|fuzz)/.*\.cc"),
    "json_fwd": (r"nlohmann/json_fwd\.hpp", r"(src|tools)/.*"),
    "cli11": (r"CLI/.*", r"tools/.*"),
    "clp": (r"coin/Clp_C_Interface\.h", r"src/solver/dual_simplex\.cc"),
    "cbc": (r"coin/(Cbc|Osi)\w+\.(hpp|h)", r"src/solver/(coin|program_text_test)\.cc"),
    "cairo": (r"cairo(-\w+)?\.h", r"src/report/plot/pareto_plot\.cc"),
    "minizip": (r"minizip/.*", r"src/io/(pt2_archive\.cc|testing/.*)"),
    "xxhash": (r"xxhash\.h", r"(src|tools|tests|bench)/.*\.cc"),
    "expected": (r"tl/expected\.hpp", r"src/base/.*|include/lowtide/result\.h"),
    "fmt": (r"fmt/.*", r".*"),
    "gtest": (r"(gtest|gmock)/.*", r".*_test\.cc|tests/.*|src/.*/testing/.*"),
    "rapidcheck": (r"rapidcheck.*", r".*_test\.cc|tests/.*"),
    "benchmark": (r"benchmark/.*", r"bench/.*"),
}
SYSTEM_HEADER = re.compile(
    r"[a-z0-9_]+|sys/\w+\.h|linux/\w+\.h|(stddef|stdint|unistd|fcntl|sched|pthread|dlfcn|fnmatch|malloc|signal|omp|termios|time|immintrin|x86intrin|cpuid)\.h"
)


def read_layers(root: pathlib.Path) -> tuple[dict[str, list[str]], list[str]]:
    layers: dict[str, list[str]] = {}
    problems = []
    for line in (root / "cmake/layers.txt").read_text().splitlines():
        if not re.match(r"[a-z]", line):
            continue
        folder, _, below = line.partition(":")
        for dependency in below.split():
            if dependency not in layers:
                problems.append(f"cmake/layers.txt: {folder} depends on {dependency}, which is not above it")
        layers[folder.strip()] = below.split()
    return layers, problems


def folder_of(path: str, layers: dict[str, list[str]]) -> str | None:
    """The listed folder that a path relative to src/ lies in; the longest, as exec/cpu is not exec."""
    candidates = [folder for folder in layers if path.startswith(folder + "/")]
    return max(candidates, key=len, default=None)


def extra_test_folders(root: pathlib.Path, folder: str, layers: dict[str, list[str]]) -> set[str]:
    file = root / "src" / folder / "test_packages.cmake"
    if not file.exists():
        return set()
    linked = {name.removesuffix("_testing") for name in LINKED.findall(file.read_text())}
    direct = {other for other in layers if other.replace("/", "_") in linked}
    return direct.union(*(layers[other] for other in direct))


def all_below(folders: set[str], layers: dict[str, list[str]]) -> set[str]:
    found, open_ends = set(), set(folders)
    while open_ends:
        folder = open_ends.pop()
        found.add(folder)
        open_ends |= set(layers.get(folder, [])) - found
    return found


def check_own_include(root, relative: str, header: str, layers) -> str | None:
    """A violation of rules 2 and 3 by a quoted include, or None."""
    if relative.startswith("include/"):
        return None if header.startswith("lowtide/") else "a public header includes only public headers"
    folder = folder_of(relative.removeprefix("src/"), layers)
    if folder is None:
        return "its folder is not in cmake/layers.txt"
    target = folder_of(header, layers)
    is_test = TEST_ONLY.fullmatch(relative) is not None
    if "testing" in header.split("/") and not is_test:
        return "what lies in testing/ is for tests alone"
    if target is None:
        if header.startswith("lowtide/") and (root / "include" / header).exists():
            return None
        if is_test and header.startswith("support/"):
            return None
        return "not a header of a folder in cmake/layers.txt"
    allowed = {folder, *layers[folder]}
    if is_test:
        allowed = all_below(allowed | extra_test_folders(root, folder, layers), layers)
    return None if target in allowed else f"{folder} may not include {target}"


def check_third_party(relative: str, header: str, seams: set[str]) -> tuple[bool, str | None]:
    """Whether the header is a listed third-party one, and its violation of rule 4 if there is one."""
    for name, (header_pattern, file_pattern) in THIRD_PARTY.items():
        if re.fullmatch(header_pattern, header):
            if re.fullmatch(file_pattern, relative) or name in seams:
                return True, None
            return True, f"{name} may be included only in {file_pattern}"
    return False, None


def check_file(root, relative: str, layers, seam_files: dict[tuple[str, str], str]) -> list[str]:
    text = (root / relative).read_text()
    problems = []
    seams = set(SEAM.findall(text))
    for name in seams:
        first = seam_files.setdefault((str(pathlib.PurePath(relative).parent), name), relative)
        if first != relative:
            problems.append(f"{relative}: {first} is the seam to {name} already")
    for match in INCLUDE.finditer(text):
        quote, header = match.groups()
        known, problem = check_third_party(relative, header, seams)
        if not known and quote == '"':
            problem = check_own_include(root, relative, header, layers)
        elif not known and not SYSTEM_HEADER.fullmatch(header):
            problem = "neither standard nor listed in THIRD_PARTY of tests/layering_test.py"
        if problem:
            line = text.count("\n", 0, match.start(2)) + 1
            problems.append(f"{relative}:{line}: #include {header}: {problem}")
    if not MAY_ADD_OPS.fullmatch(relative):
        for match in ADDS_OP.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            problems.append(f"{relative}:{line}: adds an op by itself; ops::append is the one way")
    return problems


def unused_permissions(root: pathlib.Path, files: list[str], layers: dict[str, list[str]]) -> list[str]:
    used: set[tuple[str | None, str | None]] = set()
    for relative in files:
        if not TEST_ONLY.fullmatch(relative):
            folder = folder_of(relative.removeprefix("src/"), layers)
            headers = (header for quote, header in INCLUDE.findall((root / relative).read_text()) if quote == '"')
            used |= {(folder, folder_of(header, layers)) for header in headers}
    return [f"cmake/layers.txt: {folder} may include {below}, and no file of it does"
            for folder, allowed in layers.items() for below in allowed if (folder, below) not in used]


def headers_of_tests_alone(root: pathlib.Path, files: list[str]) -> list[str]:
    """Headers of the product that tests include and no file of the product does, but the source of the same name."""
    others = [path.relative_to(root).as_posix() for top in ("tests", "fuzz", "bench") for path in sorted((root / top).rglob("*"))
              if path.suffix in (".h", ".cc")]
    by_product, by_tests = set(), set()
    for relative in files + others:
        headers = {header for _, header in INCLUDE.findall((root / relative).read_text())}
        measures = relative.startswith("bench/")
        if not measures and (relative in others or TEST_ONLY.fullmatch(relative)):
            by_tests |= headers
        else:
            by_product |= headers - {relative.removeprefix("src/").removesuffix(".cc") + ".h"}
    return [f"{relative}: only tests include it; its place is the folder testing beside it" for relative in files
            if relative.startswith("src/") and not TEST_ONLY.fullmatch(relative)
            and relative.removeprefix("src/") in by_tests - by_product]


def unlisted_bounds(root: pathlib.Path, files: list[str]) -> list[str]:
    asked: dict[tuple[str, str], int] = {}
    for relative in files:
        if not TEST_ONLY.fullmatch(relative):
            for name in ASKS_BOUND.findall((root / relative).read_text()):
                asked[relative, name] = asked.get((relative, name), 0) + 1
    readme = root / "src/remat/README.md"
    listed = {(file, name): int(count) for file, count, name in MAY_ASK.findall(readme.read_text() if readme.exists() else "")}
    return [f"{file}: {asked.get((file, name), 0)} calls of {name}, src/remat/README.md says {listed.get((file, name), 0)}"
            for file, name in sorted(asked.keys() | listed.keys()) if asked.get((file, name)) != listed.get((file, name))]


def check(root: pathlib.Path) -> list[str]:
    layers, problems = read_layers(root)
    seam_files: dict[tuple[str, str], str] = {}
    files = [path.relative_to(root).as_posix() for top in ("include", "src", "tools") for path in sorted((root / top).rglob("*"))
             if path.suffix in (".h", ".cc")]
    for file in files:
        problems += check_file(root, file, layers, seam_files)
    return problems + unused_permissions(root, files, layers) + headers_of_tests_alone(root, files) + unlisted_bounds(root, files)


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    problems = check(root)
    print("\n".join(problems) if problems else "every include, every op and every call for a bound is allowed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
