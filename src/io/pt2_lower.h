// An exported program in the language that the doors share (aten_call.h): its ops by the rows of
// the ATen table, and what is between them.
//
// *Writes in place.* Exported programs still write in place (add_, relu_, copy_ into a slice). Each
// such op is lowered as the op that makes a new tensor, and whoever reads the old name from then on
// reads that. A write through a slice or a place of a tensor makes the whole anew around it. What
// else shows the same memory must not be read afterwards, and is refused by name if it is.
//
// *Regions.* Bodies without gradients (torch.no_grad) are lowered where they stand; in a graph for
// training what they make of trained parameters is cut off from gradients, as is a detach.
//
// *What no row has.* Such an op is opaque: it has the types that the program says, is planned, and
// neither differentiated nor run. All of them are named, for whoever has to refuse them.
//
// Tests: pt2_reader_test.cc.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/onnx_model.h"
#include "io/pt2_model.h"

namespace lowtide::io {

struct LowerOptions {
  bool training = false;
};

// An op that no row takes, by its target, with the nodes and the first reason ("": no row).
struct NotTaken {
  std::string target;
  std::vector<std::string> nodes;
  std::string why;
};

struct Lowered {
  OnnxModel model;
  std::map<std::string, std::vector<std::string>> ops;  // targets, with the names of their nodes
  std::vector<NotTaken> not_taken;                      // sorted by target
  std::map<std::string, std::string> ranges;            // of symbols, in words: "2 to 128"
  sym::Bindings examples;                               // their sizes when it was exported
  std::vector<std::string> notes;                       // of what the user should know, a line each
};

// Error: kInput, naming the file and the node: a weight that is only a pickle or of a type that is
// not computed with, a tensor that is read after something else wrote into its memory.
Result<Lowered> lower(const Pt2Program& program, const LowerOptions& options);

}  // namespace lowtide::io
