#!/usr/bin/env python3
"""Holds docs/tuning.md against the tuning structs: every constant has a line with its present value, every line a constant.

    python3 tests/tuning_test.py [ROOT]         prints one line per violation; exit code 1 if there is any

Also that the check itself finds a line that is missing, one with another value and one that is left over; that the copy of the
sources in which values are compared reads every constant; which neighbours a value has; and when one of them beats it.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "bench"))
import tuning  # noqa: E402
from tuned_sources import constants_of, instrumented, tuning_files  # noqa: E402

STRUCT = """namespace {
struct SmallTuning {
  static constexpr int kLength = 2;
  int64_t units = 20'000, bytes = int64_t{1} << 20;  // of all; "so many"
  int shares[kLength] = {3, 1};
  std::array<double, 2> ratios = {1.5, 4};
  std::array<std::string_view, 1> names = {"A"};
};
constexpr SmallTuning kSmall;
}  // namespace
"""
READ = {"src/pack/x.cc: SmallTuning.units": "20'000", "src/pack/x.cc: SmallTuning.bytes": "int64_t{1} << 20",
        "src/pack/x.cc: SmallTuning.shares[0]": "3", "src/pack/x.cc: SmallTuning.shares[1]": "1",
        "src/pack/x.cc: SmallTuning.ratios[0]": "1.5", "src/pack/x.cc: SmallTuning.ratios[1]": "4"}

# Values, whole or not; at half, at twice.
NEIGHBOURS = [((20000,), True, (10000,), (40000,)), ((3,), True, (2,), (4,)), ((1,), True, None, (2,)), ((5,), True, (2,), (10,)),
              ((0.3,), False, (0.15,), (0.6,)), ((0.75,), False, (0.5,), (0.875,)), ((1.5, 4), False, (1.25, 2.5), (2, 7))]


def wrong_neighbours() -> list[str]:
    made = [(tuning.Constant("src/pack/x.cc", "SmallTuning", "x", (), values, whole), [half, twice])
            for values, whole, half, twice in NEIGHBOURS]
    return [f"the neighbours of {constant.values} are {tuning.neighbours(constant)}, not {wanted}"
            for constant, wanted in made if tuning.neighbours(constant) != wanted]


def wrong_judgement() -> list[str]:
    """Extra time of two rows at half, at the value and at twice, and the work; what beats the value."""
    row = tuning.Row("r", (), ())
    cases = [(((9, 10, 11), (20, 20, 20)), (1, 1, 1), [0]),  # better on one, equal on the other
             (((9, 10, 11), (21, 20, 19)), (1, 1, 1), []),   # both are worse somewhere
             (((9, 10, 9), (20, 20, 20)), (2, 1, 1), [2]),   # for twice the work it is no wonder
             (((9.99, 10, None), (20, 20, 20)), (1, 1, 1), [])]  # not clearly; nothing found
    problems = []
    for extras, works, wanted in cases:
        lines = [tuning.Line(row, tuning.Measure("extra %", 0.05), values, (True, True, True)) for values in extras]
        found = [place for place in (0, 2) if tuning.Comparison(lines, works).beaten_by(place)]
        if found != wanted:
            problems.append(f"of {extras} for {works} of work the places {found} beat the value, not {wanted}")
    return problems


def wrong_reading() -> list[str]:
    """Of a struct with everything that a struct may have."""
    text = instrumented('#include <array>\n' + STRUCT, "src/pack/x.cc")
    missing = [name for name, value in READ.items() if f'lowtide::tuned("{name}", {value})' not in text]
    problems = [f"the copy does not read {name} from outside" for name in missing]
    if text.count("lowtide::tuned(") != len(READ) or "const SmallTuning kSmall;" not in text or '{"A"}' not in text:
        problems.append("the copy changes more or less than a struct's numbers")
    return problems


def blind_spots(constants: list[tuning.Constant], text: str) -> list[str]:
    """What the check should have found in documents that are wrong."""
    first = constants[0]
    line = next((line for line in text.splitlines() if line.startswith(f"| `{first.key}` |")), None)
    if line is None:
        return []  # that is a violation by itself
    other = line.replace(f"| {tuning.shown(first.values)} |", "| 12345.5 |", 1)
    cases = {"missing": text.replace(line + "\n", ""), "stale": text.replace(line, other),
             "left over": text.replace(line, line + "\n" + line.replace(first.key, "pack/none.cc: NoTuning.member"))}
    return [f"a line that is {what} is not found" for what, wrong in cases.items() if len(tuning.check(constants, wrong)) != 1]


def check(root: pathlib.Path) -> list[str]:
    constants, text = constants_of(root), (root / "docs/tuning.md").read_text()
    problems = tuning.check(constants, text)
    declared = {struct for file in tuning_files(root) for struct in tuning.STRUCT_NAME.findall(file.read_text())}
    problems += [f"{name}: none of its constants is read" for name in sorted(declared - {c.struct for c in constants})]
    return problems + wrong_reading() + wrong_neighbours() + wrong_judgement() + ([] if problems else blind_spots(constants, text))


def main() -> int:
    problems = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]))
    print("\n".join(problems) if problems else "every tuning constant stands in docs/tuning.md with its value")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
