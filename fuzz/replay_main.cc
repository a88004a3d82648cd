// The main() of the fuzz targets where they are built without libFuzzer, so that every compiler and
// sanitizer can run them: `fuzz_replay TARGET [--mutations=N] FILE...`. Files or folders of files;
// each is run as it is and then in `mutations` seeded variations: bytes changed, spans deleted,
// doubled, swapped or taken from another input. Deterministic: a crash is repeated by the same
// arguments.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

struct Target {
  std::string_view name;
  int (*run)(const uint8_t* data, size_t size);
};
extern const Target kTargets[];  // CMakeLists.txt writes the table
extern const size_t kTargetCount;

namespace {

std::vector<std::filesystem::path> files_of(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

uint64_t next(uint64_t& state) {
  uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void mutate_once(std::string& text, const std::vector<std::string>& inputs, uint64_t& state) {
  const auto position = [&] { return text.empty() ? 0 : next(state) % text.size(); };
  const auto length = [&] { return 1 + next(state) % 16; };
  switch (next(state) % 6) {
    case 0:
      if (!text.empty()) text[position()] = static_cast<char>(next(state));
      break;
    case 1:
      if (!text.empty()) text[position()] ^= static_cast<char>(1u << (next(state) % 8));
      break;
    case 2:
      text.erase(position(), length());
      break;
    case 3:
      text.insert(position(), text.substr(position(), length()));
      break;
    case 4: {
      const std::string& other = inputs[next(state) % inputs.size()];
      if (!other.empty())
        text.insert(position(), other.substr(next(state) % other.size(), length()));
      break;
    }
    default: {
      static constexpr std::string_view kTokens[] = {
          "-1", "0", "9223372036854775807", "1e999", "\"", "\n", "\xff\xff\xff\x7f", "{", "]"};
      text.insert(position(), kTokens[next(state) % std::size(kTokens)]);
    }
  }
}

// What is being run, for the handler below.
const std::string* running = nullptr;

// Keeps the input that crashed, as libFuzzer does.
void keep_input(int signal) {
  const int file = ::open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (running != nullptr && file >= 0 && ::write(file, running->data(), running->size()) >= 0)
    std::fputs("the input is kept in crash-input\n", stderr);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const Target& target, const std::string& bytes) {
  running = &bytes;
  target.run(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  for (int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS}) std::signal(signal, keep_input);
  const auto* const end = kTargets + kTargetCount;
  const auto* const target = std::find_if(
      kTargets, end, [&](const Target& each) { return argc > 1 && each.name == argv[1]; });
  if (target == end) {
    std::fprintf(stderr, "the first argument is one of:\n");
    for (const auto* each = kTargets; each != end; ++each)
      std::fprintf(stderr, "%s\n", each->name.data());
    return 1;
  }
  long mutations = 0;
  std::vector<std::string> inputs;
  for (int i = 2; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with("--mutations=")) {
      mutations = std::strtol(argv[i] + 12, nullptr, 10);
      continue;
    }
    for (const auto& file : files_of(argv[i])) {
      std::ifstream stream(file, std::ios::binary);
      if (!stream) {
        std::fprintf(stderr, "%s: cannot be read\n", file.c_str());
        return 1;
      }
      inputs.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
      std::fprintf(stderr, "%s\n", file.c_str());  // the last one printed is the one that crashed
      run(*target, inputs.back());
    }
  }
  uint64_t state = 1;
  for (long i = 0; i < mutations && !inputs.empty(); ++i) {
    std::string text = inputs[next(state) % inputs.size()];
    for (uint64_t changes = 1 + next(state) % 4; changes > 0; --changes)
      mutate_once(text, inputs, state);
    run(*target, text);
  }
  std::printf("%zu inputs, %ld mutations\n", inputs.size(), mutations);
  return inputs.empty() ? 1 : 0;
}
