// Which memory each tensor of an exported program shows, and which name stands for it now.
//
// A write makes a new version of its memory. A tensor that has seen an older version is stale;
// tensors that are the same one (what was written into, and the result of the write) share a Shown.
// Views that are a range of places along one dim of another are known as such, so that a write
// through them can be put back into the whole.
//
// Tests: pt2_reader_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sym/expr.h"

namespace lowtide::io {

struct ShownRange {
  size_t whole = 0;  // a Shown
  int64_t axis = 0;
  sym::Expr begin = {}, end = {};
  bool drops_axis = false;  // one place, whose dim is gone
};

struct Shown {
  std::string name;
  size_t memory = 0;
  int64_t version = 0;
  bool trained = false;  // floats that something trained is in
  std::optional<ShownRange> range = {};
};

class ShownTensors {
 public:
  // A memory of its own.
  size_t new_memory();
  void show(const std::string& tensor, Shown shown);
  // `tensor` is the same one as that of this place.
  void show_same(const std::string& tensor, size_t place) { place_of_[tensor] = place; }

  std::optional<size_t> find(const std::string& tensor) const;
  const Shown& at(size_t place) const { return shown_[place]; }
  bool is_trained(const std::string& tensor) const;

  // The name that stands for it. Empty: it is not there or stale, and `why` says so.
  std::string read(const std::string& tensor, std::string& why) const;

  // A node writes into a tensor: its memory has a new version, and `name` stands for it.
  void begin_write(size_t place, const std::string& name, const std::string& node, bool trained);
  // The same write, as the whole of a range sees it.
  void see_write(size_t place, const std::string& name, bool trained);
  // Whether a tensor brought its memory, so that nothing but its views shows it.
  bool brought_memory(size_t place) const;

 private:
  struct Memory {
    int64_t version = 0;
    std::string writer;
    size_t first = 0;  // the Shown that brought it
    bool shown = false;
  };

  std::vector<Shown> shown_;
  std::vector<Memory> memory_;
  std::map<std::string, size_t, std::less<>> place_of_;
};

}  // namespace lowtide::io
