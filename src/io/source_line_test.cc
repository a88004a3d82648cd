// Stack traces of both exporters name the model's own line; anything else names none.
#include "io/source_line.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace lowtide::io {
namespace {

constexpr const char* kPython =
    "  File \"/users/me/train.py\", line 7, in <module>\n    step(x)\n"
    "  File \"/users/me/gpt2/model.py\", line 123, in forward\n    return self.fc(x), \"a(1): b\"\n"
    "  File \"/usr/lib/python3/site-packages/torch/nn/modules/linear.py\", line 134, in forward\n"
    "    return F.linear(input, self.weight, self.bias)\n";

TEST(SourceLine, IsTheInnermostThatIsNotPyTorchs) {
  EXPECT_EQ(source_line(kPython), "gpt2/model.py:123");
}

TEST(SourceLine, OfTheOlderExporterTheFirst) {
  EXPECT_EQ(source_line("/usr/lib/dist-packages/torch/nn/functional.py(2125): linear\n"
                        "/users/me/gpt2/model.py(30): forward\n/users/me/gpt2/main.py(9): run\n"),
            "gpt2/model.py:30");
}

TEST(SourceLine, OfAPackageIsItsPathInIt) {
  EXPECT_EQ(
      source_line("  File \"/v/lib/site-packages/transformers/models/gpt2/modeling_gpt2.py\", "
                  "line 5, in forward\n"),
      "transformers/models/gpt2/modeling_gpt2.py:5");
}

TEST(SourceLine, IsPyTorchsWhereNothingElseCalls) {
  EXPECT_EQ(source_line("File \"/v/site-packages/torch/nn/a.py\", line 1, in f\n"
                        "File \"/v/site-packages/torch/nn/b.py\", line 2, in g"),
            "torch/nn/b.py:2");
  EXPECT_EQ(source_line("/v/site-packages/torch/nn/b.py(2): g\n/v/site-packages/torch/a.py(1): f"),
            "torch/nn/b.py:2");
}

TEST(SourceLine, OfShortPathsIsAllOfThem) {
  EXPECT_EQ(source_line("File \"model.py\", line 3, in f"), "model.py:3");
  EXPECT_EQ(source_line("File \"/model.py\", line 3, in f"), "model.py:3");
  EXPECT_EQ(source_line("File \"a/model.py\", line 3, in f"), "a/model.py:3");
}

TEST(SourceLine, OfOtherTextIsEmpty) {
  for (const char* text :
       {"", "\n\n", "a doc string", "File \"a.py\"", "File \"a.py\", line x, in f",
        "File \"\", line 3, in f", "(3): f", "a(b): f", "a(): f", "x): f"})
    EXPECT_EQ(source_line(text), "") << text;
}

TEST(SourceLine, OfATraceCutOrChangedAnywhereIsALineOfItOrNothing) {
  Rng rng(1);
  for (int i = 0; i < 3000; ++i) {
    std::string text = kPython;
    text[rng.below(text.size())] = static_cast<char>(rng.below(256));
    text.resize(rng.below(text.size() + 1));
    const std::string found = source_line(text);
    const size_t colon = found.rfind(':');
    if (found.empty()) continue;
    ASSERT_NE(colon, std::string::npos) << text;
    ASSERT_NE(text.find(found.substr(0, colon)), std::string::npos) << text;
    ASSERT_NE(text.find(found.substr(colon + 1)), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace lowtide::io
