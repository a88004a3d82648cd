"""The constants of the tuning structs, and a copy of the sources in which each takes its value from the environment.

A tuning struct is `struct XTuning { ... };` anywhere below src: members of numbers, each with its value. What is text is left out,
and so are `static` members, which say how long a list is.
"""

import dataclasses
import pathlib
import re
import subprocess

FIRST = ("src/pack", "src/order", "src/remat", "src/pipeline")  # of src, in the document
STRUCT = re.compile(r"struct (\w*Tuning) \{\n(.*?)\n\s*\};", re.DOTALL)
INSTANCE = re.compile(r"constexpr \w*Tuning (k\w+);")
COMMENT = re.compile(r"//[^\n]*")
WHOLE = {"int", "int32_t", "int64_t", "uint32_t", "uint64_t", "size_t"}
# Lists whose values belong together: all of them change at once. Others change value by value.
TOGETHER = {"first_ratios", "ratios", "crowded", "spreads", "further", "numbers", "factors"}
HEADER = "base/tuned.h"
TUNED = """#pragma once
#include <cstdlib>
#include <map>
#include <string>
#include <type_traits>
namespace lowtide {
inline const std::map<std::string, std::string>& tuned_values() {
  static const std::map<std::string, std::string> values = [] {
    std::map<std::string, std::string> read;
    const char* text = std::getenv("LOWTIDE_TUNED");
    std::string left = text ? text : "";
    while (!left.empty()) {
      const std::string one = left.substr(0, left.find(';'));
      left.erase(0, one.size() + 1);
      read[one.substr(0, one.find('='))] = one.substr(one.find('=') + 1);
    }
    return read;
  }();
  return values;
}
template <class Given>
struct Tuned {
  const char* name;
  Given given;
  template <class T>
    requires std::is_arithmetic_v<T>
  operator T() const {
    const auto found = tuned_values().find(name);
    if (found == tuned_values().end()) return static_cast<T>(given);
    if constexpr (std::is_floating_point_v<T>) return std::stod(found->second);
    return static_cast<T>(std::stoll(found->second));
  }
};
template <class Given>
Tuned<Given> tuned(const char* name, Given given) {
  return {name, given};
}
}  // namespace lowtide
"""


@dataclasses.dataclass(frozen=True)
class Constant:
    """A number of a struct, or the numbers of a list that change together. `names`: as in "src/x.cc: XTuning.member[0]"."""
    file: str
    struct: str
    member: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    whole: bool  # numbers without a fraction

    @property
    def key(self) -> str:
        return f"{self.file.removeprefix('src/')}: {self.struct}.{self.member}"


def evaluated(text: str) -> float:
    """A number as C++ writes it."""
    plain = re.sub(r"\b(?:u?int\d+_t|size_t)\{(\w+)\}", r"\1", text.replace("'", ""))
    if not re.fullmatch(r"[\d.eEx+\-*/<>() ]+", plain):
        raise ValueError(f"'{text}' is not a number that this program reads")
    return eval(plain, {"__builtins__": {}})  # digits and operators only


@dataclasses.dataclass(frozen=True)
class Number:
    """Where a number stands: its text is source[begin:end]."""
    name: str
    begin: int
    end: int
    text: str


def numbers_in(source: str, begin: int, end: int, member: str) -> list[Number]:
    """The numbers of an initializer: one, or those of a list in braces."""
    text = source[begin:end]
    if not text.lstrip().startswith("{"):
        stripped = text.strip()
        at = begin + text.index(stripped)
        return [Number(member, at, at + len(stripped), stripped)]
    at = begin + text.index("{") + 1
    found = []
    for index, part in enumerate(source[at:begin + text.rindex("}")].split(",")):
        start = at + part.index(part.strip())
        found.append(Number(f"{member}[{index}]", start, start + len(part.strip()), part.strip()))
        at += len(part) + 1
    return found


def members_of(source: str, begin: int, end: int) -> list[tuple[str, str, list[Number]]]:
    """Type, name and numbers of the members in source[begin:end]. Comments become blanks, so that places stay."""
    blank = COMMENT.sub(lambda m: " " * len(m[0]), source[begin:end])
    found = []
    for statement in re.finditer(r"[^;]+;", blank):
        first = re.match(r"\s*((?:static constexpr )?[\w:]+(?:<[^>]*>)?)\s+", statement[0])
        if first is None or first[1].startswith("static") or '"' in statement[0]:
            continue
        rest, at = statement[0][first.end():-1], begin + statement.start() + first.end()
        for one in re.finditer(r"(\w+)(?:\[\w+\])?\s*=\s*(\{[^}]*\}|(?:\w+\{\w+\}|[^,{}])+)", rest):
            found.append((first[1], one[1], numbers_in(source, at + one.start(2), at + one.end(2), one[1])))
    return found


def tuning_files(root: pathlib.Path) -> list[pathlib.Path]:
    files = [path for folder in (*FIRST, "src") for path in sorted((root / folder).rglob("*"))
             if path.suffix in (".h", ".cc") and "testing" not in path.parts and not path.name.endswith("_test.cc")]
    return [path for path in dict.fromkeys(files) if STRUCT.search(path.read_text())]


def constants_of(root: pathlib.Path) -> list[Constant]:
    found = []
    for path in tuning_files(root):
        source, file = path.read_text(), path.relative_to(root).as_posix()
        for struct in STRUCT.finditer(source):
            for kind, member, numbers in members_of(source, struct.start(2), struct.end(2)):
                whole = kind in WHOLE or kind == "ClassLimits" or any(f"<{w}" in kind for w in WHOLE)
                groups = [numbers] if member in TOGETHER else [[number] for number in numbers]
                for group in groups:
                    name = member if len(group) > 1 else group[0].name
                    names = tuple(f"{file}: {struct[1]}.{number.name}" for number in group)
                    found.append(Constant(file, struct[1], name, names, tuple(evaluated(n.text) for n in group), whole))
    return found


def instrumented(source: str, file: str) -> str:
    """The source with each number of a tuning struct read from the environment, where it stands there."""
    numbers = [(f"{file}: {struct[1]}.{number.name}", number) for struct in STRUCT.finditer(source)
               for _, _, found in members_of(source, struct.start(2), struct.end(2)) for number in found]
    for name, number in sorted(numbers, key=lambda pair: -pair[1].begin):
        source = f'{source[:number.begin]}lowtide::tuned("{name}", {number.text}){source[number.end:]}'
    source = re.sub(r"constexpr (\w*Tuning k\w+;)", r"const \1", source)
    first = source.index("#include")
    return f'{source[:first]}#include "{HEADER}"\n{source[first:]}'


def inconstant(source: str, instances: set[str]) -> str:
    """What is computed from a tuning struct is no constant expression any more."""
    return re.sub(rf"constexpr ([^\n;]*\b(?:{'|'.join(sorted(instances))})\.)", r"const \1", source)


def build(root: pathlib.Path, scratch: pathlib.Path) -> pathlib.Path:
    """Makes or refreshes the copy and builds the tool from it; its path."""
    files = [path for top in ("src", "include", "tools", "cmake", "devices") for path in sorted((root / top).rglob("*")) if path.is_file()]
    files += [root / name for name in ("CMakeLists.txt", "CMakePresets.json")]
    files += [root / top / "CMakeLists.txt" for top in ("tests", "bench", "fuzz")]
    tuning = {path.relative_to(root).as_posix() for path in tuning_files(root)}
    wanted = {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
    instances = {name for file in tuning for name in INSTANCE.findall(wanted[file].decode())}
    for name in wanted:
        if name.startswith("src/") and name.endswith((".h", ".cc")):
            source = inconstant(wanted[name].decode(), instances)
            wanted[name] = (instrumented(source, name) if name in tuning else source).encode()
    wanted[f"src/{HEADER}"] = TUNED.encode()
    for name, content in wanted.items():
        path = scratch / name
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    for path in (scratch / "src").rglob("*.*"):
        if path.relative_to(scratch).as_posix() not in wanted:
            path.unlink()
    folder = scratch / "build/release"
    subprocess.run(["cmake", "-S", str(scratch), "--preset", "release", "-DLOWTIDE_BUILD_TESTS=OFF", "-DLOWTIDE_WERROR=OFF"],
                   cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(folder), "--target", "lowtide"], check=True)
    return folder / "tools/lowtide"
