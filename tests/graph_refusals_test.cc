// What a graph's text may get wrong is refused at the door, in one line that names the line and the
// value, and never by the verifier at the end of planning: every text here is changed in one place,
// systematically (each category, alias, phase, kind of contents and output to each other, each
// operand to each value), and each mutant is refused as bad input or planned and verified.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/training.h"
#include "io/graph_file.h"
#include "io/onnx_reader.h"
#include "ir/graph_text.h"
#include "lowtide/api.h"
#include "support/long_checks.h"

namespace lowtide::graph_refusals_test {
namespace {

// A training step by somebody else's kernels: a draw, views, effects, an update of a weight with
// its state.
const char* const kForeign = R"(graph "foreign" "by hand"
given "x" f32 [16, 8] input fed
given "w" f32 [8, 8] parameter seeded
given "m" f32 [8, 8] optimizer_state zero
op "Opaque" "linear" "" forward v0 v1
  attr "op" word "aten::linear"
  attr "seconds" real 0.002
  out "h" f32 [16, 8] activation own
op "OpaqueRandom" "dropout" "" forward v3
  attr "op" word "aten::native_dropout"
  out "d" f32 [16, 8] activation own
  out "mask" bool [16, 8] activation own
op "Opaque" "half" "" forward v4
  attr "op" word "aten::slice"
  out "top" f32 [8, 8] activation view v4 [0]
op "OpaqueEffect" "log" "" forward v6
  attr "op" word "log"
op "Opaque" "back" "" backward v4 v5 v3
  attr "op" word "mylib::backward"
  out "g" f32 [8, 8] gradient own
  out "t" f32 [8, 8] temporary own
op "Add" "sum" "" backward v7 v8
  out "gs" f32 [8, 8] gradient own
op "Opaque" "sgd" "" update v1 v9 v2
  attr "op" word "mylib::sgd_"
  out "w_new" f32 [8, 8] parameter update v1 [0] output
  out "m_new" f32 [8, 8] optimizer_state update v2 [0]
)";

// Pieces, a running statistic, a constant, a view of a parameter.
const char* const kForward = R"(graph "net" "by hand"
given "x" f32 [8, 16] input fed
given "w" f32 [16, 16] parameter seeded
given "b" f32 [1, 16] parameter seeded
given "scale" f32 [16] parameter seeded
given "mean" f32 [16] parameter zero
given "c" f32 [1] input inline "0000803f"
op "MatMul" "fc" "" forward v0 v1 -
  out "h" f32 [8, 16] activation own
op "Reshape" "flat" "" forward v2
  attr "shape" list [16]
  out "bias" f32 [16] parameter view v2 [0]
op "BatchNormTrain" "norm" "" forward v6 v3 v7
  attr "epsilon" real 1e-05
  out "n" f32 [8, 16] activation own
  out "batch_mean" f32 [16] activation own
  out "batch_var" f32 [16] activation own
op "RunningUpdate" "running" "" forward v4 v9
  attr "momentum" real 0.1
  attr "correction" real 1
  out "mean_new" f32 [16] parameter update v4 [0]
op "Relu" "act" "" forward v8
  out "a" f32 [8, 16] activation own
op "Mul" "scaled" "" forward v12 v5
  out "y" f32 [8, 16] activation own output
)";

const char* const kJoined = R"(graph "joined" "by hand"
given "x" f32 [8, 16] input fed
given "w" f32 [16, 4] parameter seeded
op "Relu" "left" "" forward v0
  out "a" f32 [8, 16] activation own
op "Exp" "right" "" forward v0
  out "b" f32 [8, 16] activation own
op "Join" "both" "" forward v2 v3
  attr "axis" int 0
  out "j" f32 [16, 16] activation pieces
op "MatMul" "fc" "" forward v4 v1 -
  out "y" f32 [16, 4] activation own output
)";

// The training step of a text, as a text.
std::string trained(const char* text, autodiff::OptimizerKind optimizer) {
  const auto forward = io::read_graph_text(text, "forward");
  EXPECT_TRUE(forward.has_value()) << (forward ? "" : forward.error().message);
  if (!forward) return "";
  autodiff::TrainingOptions options;
  options.loss.kind = autodiff::LossKind::kMeanSquaredError;
  options.optimizer.kind = optimizer;
  const auto step = autodiff::make_training_graph(*forward, options);
  EXPECT_TRUE(step.has_value()) << (step ? "" : step.error().message);
  return step ? ir::print(*step) : "";
}

autodiff::TrainingOptions training_of(std::string_view model) {
  autodiff::TrainingOptions options;
  if (model == "unet") options.loss.kind = autodiff::LossKind::kMeanSquaredError;
  return options;
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

// ---- every text with one change

struct Word {
  size_t at, length;
};

// The words of a line, between spaces outside of quotes and brackets.
std::vector<Word> words_of(std::string_view text, size_t begin, size_t end) {
  std::vector<Word> words;
  bool quote = false, list = false;
  for (size_t i = begin; i < end; ++i) {
    const bool space = text[i] == ' ' && !quote && !list;
    if (text[i] == '"') quote = !quote;
    if (!quote && (text[i] == '[' || text[i] == ']')) list = text[i] == '[';
    if (space) continue;
    if (words.empty() || words.back().at + words.back().length != i) words.push_back({i, 0});
    words.back().length = i + 1 - words.back().at;
  }
  return words;
}

// Calls `with` with each text that differs from this one in one word or, for an alias, in one
// phrase.
class Mutants {
 public:
  Mutants(std::string text, std::function<void(const std::string&)> with)
      : text_(std::move(text)), with_(std::move(with)) {
    values_ = 0;
    for_lines([&](const std::vector<Word>& words) {
      values_ += word(words[0]) == "given" || word(words[0]) == "out" ? 1 : 0;
    });
  }

  void run() {
    for_lines([&](const std::vector<Word>& words) {
      const std::string_view first = word(words[0]);
      if (first == "given") given(words);
      if (first == "op") op(words);
      if (first == "out") out(words);
    });
  }

 private:
  std::string_view word(Word at) const { return std::string_view(text_).substr(at.at, at.length); }

  template <class Use>
  void for_lines(const Use& use) const {
    for (size_t at = 0; at < text_.size();) {
      const size_t end = std::min(text_.find('\n', at), text_.size());
      if (const auto words = words_of(text_, at, end); !words.empty()) use(words);
      at = end + 1;
    }
  }

  void try_each(Word at, const std::vector<std::string>& instead) const {
    for (const std::string& text : instead)
      if (text != word(at)) with_(std::string(text_).replace(at.at, at.length, text));
  }

  void category(Word at) const {
    std::vector<std::string> all;
    for (int c = 0; c < kCategories; ++c) all.emplace_back(name(static_cast<Category>(c)));
    try_each(at, all);
  }

  void toggle_output(const std::vector<Word>& words) const {
    const Word last = words.back();
    if (word(last) == "output")
      with_(std::string(text_).erase(last.at - 1, last.length + 1));
    else
      with_(std::string(text_).insert(last.at + last.length, " output"));
  }

  void given(const std::vector<Word>& words) const {
    try_each(words[2], {"f32", "f64", "bf16", "i64", "bool"});
    category(words[4]);
    size_t last = 5;
    if (word(words[5]) == "inline") last = 6;
    const Word contents = {words[5].at, words[last].at + words[last].length - words[5].at};
    try_each(contents, {"fed", "seeded", "zero", "inline \"\"", "inline \"0000803f\"",
                        "external \"w.bin\" 0 0", "external \"w.bin\" 0 4"});
    toggle_output(words);
  }

  void op(const std::vector<Word>& words) {
    inputs_.clear();
    try_each(words[4], {"forward", "backward", "update"});
    std::vector<std::string> values = {"-"};
    for (int v = 0; v < values_; ++v) values.push_back("v" + std::to_string(v));
    for (size_t i = 5; i < words.size(); ++i) {
      inputs_.emplace_back(word(words[i]));
      try_each(words[i], values);
    }
  }

  void out(const std::vector<Word>& words) const {
    category(words[4]);
    const bool based = word(words[5]) == "view" || word(words[5]) == "update";
    const Word last = words[based ? 7 : 5];
    std::vector<std::string> aliases = {"own", "pieces"};
    for (const std::string& input : inputs_)
      for (const char* alias : {"view ", "update "}) {
        aliases.push_back(alias + input + " [0]");
        aliases.push_back(alias + input + " [64]");
      }
    try_each({words[5].at, last.at + last.length - words[5].at}, aliases);
    toggle_output(words);
  }

  std::string text_;
  std::function<void(const std::string&)> with_;
  int values_;
  std::vector<std::string> inputs_;  // of the op whose outputs are being changed
};

struct Counts {
  int refused = 0, planned = 0;
};

// Whether the text is planned; it is, or is refused as bad input.
bool is_planned(const std::string& text, bool train, const std::string& device) {
  const auto model = Model::parse(text, "t.graph");
  const auto code_of = [](const Error& error) {
    EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
    return error.code;
  };
  if (!model) {
    EXPECT_EQ(code_of(model.error()), ErrorCode::kInput) << model.error().message << "\n" << text;
    EXPECT_TRUE(model.error().message.starts_with("t.graph")) << model.error().message;
    return false;
  }
  PlanOptions options;
  options.device = device;
  options.threads = 1;
  options.train = train;
  options.loss = "mse";
  const auto plan = Plan::make(*model, options);
  if (!plan) {
    EXPECT_EQ(code_of(plan.error()), ErrorCode::kInput) << plan.error().message << "\n" << text;
    EXPECT_TRUE(train) << "not at the door: " << plan.error().message << "\n" << text;
    return false;
  }
  const Status verified = plan->verify();
  EXPECT_TRUE(verified.has_value()) << verified.error().message;
  return true;
}

Counts try_all(const std::string& text, bool train, const std::string& device) {
  Counts counts;
  EXPECT_TRUE(is_planned(text, train, device)) << text;
  Mutants(text, [&](const std::string& mutant) {
    ++(is_planned(mutant, train, device) ? counts.planned : counts.refused);
  }).run();
  return counts;
}

TEST(GraphRefusals, EachSaysWhereWhatAndWhatWouldBeRight) {
  const struct {
    const char *what, *with, *message;
  } cases[] = {
      {"[16, 8] input", "[16, 8] parameter",
       "2: 'x' is called parameter and is fed: that makes it input"},
      {"parameter seeded", "input seeded",
       "3: 'w' is called input and is the first that op 'sgd' overwrites: that makes it "
       "parameter"},
      {"parameter seeded", "optimizer_state seeded",
       "3: 'w' is called optimizer_state and is the first that op 'sgd' overwrites: "
       "that makes it parameter"},
      {"parameter seeded", "parameter fed",
       "26: op 'sgd' (Opaque) overwrites 'w' by its output 'w_new', but that is fed; an "
       "update overwrites the whole of a parameter or optimizer_state that is there "
       "before the step"},
      {"parameter seeded", "parameter inline \"00\"",
       "3: 'w' has 1 bytes of contents (inline): 64 elements of f32 are 256 bytes"},
      {"optimizer_state zero", "parameter zero",
       "4: 'm' is called parameter and is overwritten by op 'sgd' beside a parameter: "
       "that makes it optimizer_state"},
      {"activation own", "parameter own",
       "8: 'h' is called parameter and is made by op 'linear' (forward): that makes it "
       "activation"},
      {"activation own", "input own",
       "8: 'h' is called input and is made by op 'linear' (forward): that makes it "
       "activation"},
      {"activation view", "temporary view",
       "15: 'top' is called temporary and lies in 'd', which is made by op 'dropout' "
       "(forward): that makes it activation"},
      {"activation view v4", "parameter update v4",
       " op 'back' reads 'd' after it was overwritten"},
      {"\"back\" \"\" backward", "\"back\" \"\" forward",
       "20: 'g' is called gradient and is made by op 'back' (forward): that makes it "
       "activation"},
      {"temporary own", "workspace own",
       "21: 't' is called workspace and is made by op 'back' (backward): that makes it "
       "gradient or temporary"},
      {"\"gs\" f32 [8, 8] gradient", "\"gs\" f32 [8, 8] temporary",
       "23: 'gs' is called temporary and is made by op 'sum' (backward) and is the "
       "gradient of update 'sgd': that makes it gradient"},
      {"update v1 v9 v2", "backward v1 v9 v2",
       "20: 'g' is called gradient and is made by op 'back' (backward) and no update "
       "takes it as a gradient: that makes it temporary"},
      {"parameter update v1", "parameter update v9",
       "26: op 'sgd' (Opaque) overwrites 'gs' by its output 'w_new', but op 'sum' makes "
       "that in the step, so that nothing of the update would stay; an update "
       "overwrites the whole of a parameter or optimizer_state that is there before the "
       "step"},
      {"optimizer_state update v2", "parameter update v1",
       "27: op 'sgd' (Opaque) overwrites 'w' by its output 'm_new', but an output "
       "before does so too; an update overwrites the whole of a parameter or "
       "optimizer_state that is there before the step"},
      {"parameter update v1", "parameter update v2",
       "27: op 'sgd' (Opaque) overwrites 'm' by its output 'm_new', but an output "
       "before does so too; an update overwrites the whole of a parameter or "
       "optimizer_state that is there before the step"},
      {"parameter seeded", "parameter seeded output",
       "3: 'w' is an output of the step and op 'sgd' overwrites it: an output stays to "
       "the end as it is"},
      {"backward v4 v5 v3", "backward v4 v5 v7",
       "18: expected v<id> with an id below 7, not '7', found ''"},
  };
  for (const auto& c : cases) {
    const auto model = Model::parse(replaced(kForeign, c.what, c.with), "t.graph");
    ASSERT_FALSE(model.has_value()) << c.message;
    EXPECT_EQ(model.error().code, ErrorCode::kInput);
    EXPECT_EQ(model.error().message, std::string("t.graph:") + c.message);
  }
}

// Texts of training steps that this library itself makes of networks are right.
TEST(GraphRefusals, OwnStepsAreTaken) {
  for (const char* model : {"bert", "gpt2", "resnet50", "unet"}) {
    SCOPED_TRACE(model);
    const std::string path = std::string(LOWTIDE_SOURCE_DIR "/models/") + model + ".onnx";
    const auto forward = io::read_onnx(path, {.bindings = {{"batch", 2}}, .training = true});
    ASSERT_TRUE(forward.has_value()) << forward.error().message;
    const auto step = autodiff::make_training_graph(*forward, training_of(model));
    ASSERT_TRUE(step.has_value()) << step.error().message;
    const auto taken = io::read_graph_text(ir::print(*step), "t.graph");
    EXPECT_TRUE(taken.has_value()) << taken.error().message;
  }
}

TEST(GraphRefusals, AChangedTextIsRefusedAtTheDoorOrPlanned) {
  const struct {
    const char* name;
    std::string text;
    bool train = false;
  } cases[] = {{"foreign", kForeign},
               {"forward", kForward},
               {"forward, then trained", kForward, true},
               {"joined", kJoined},
               {"trained by adam", trained(kForward, autodiff::OptimizerKind::kAdamW)},
               {"trained by sgd", trained(kForward, autodiff::OptimizerKind::kSgd)}};
  for (const auto& c : cases)
    for (const char* device : {"h100", "cpu"}) {
      SCOPED_TRACE(std::string(c.name) + " on " + device);
      const Counts counts = try_all(c.text, c.train, device);
      EXPECT_GT(counts.refused, 30);
      EXPECT_GT(counts.planned, 0);
    }
}

}  // namespace
}  // namespace lowtide::graph_refusals_test
