// Plans a training step of a model, runs it on data of one's own, and reads the loss back: Lowtide's public API in a page.
//
//     train_step model.onnx batch=2 [seq=16]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "lowtide/api.h"

namespace {

template <class T>
T must(lowtide::Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "train_step: %s\n", result.error().message.c_str());
  std::exit(1);
}

void must(const lowtide::Status& status) {
  if (status) return;
  std::fprintf(stderr, "train_step: %s\n", status.error().message.c_str());
  std::exit(1);
}

float loss_of(const lowtide::Session& session) {
  const auto bytes = must(session.get("loss"));
  float loss = 0;
  std::memcpy(&loss, bytes.data(), sizeof loss);
  return loss;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: train_step model.onnx name=size ...\n");
    return 2;
  }
  lowtide::ReadOptions reading;
  reading.training = true;
  for (int i = 2; i < argc; ++i) {
    const std::string dim = argv[i];
    const size_t equals = dim.find('=');
    reading.dims[dim.substr(0, equals)] = std::atoll(dim.c_str() + equals + 1);
  }
  const auto model = must(lowtide::Model::read(argv[1], reading));
  const auto plan = must(lowtide::Plan::make(model, {.train = true}));
  must(plan.verify());
  std::printf("peak %lld bytes, bound %lld bytes\n", static_cast<long long>(plan.peak_bytes()),
              static_cast<long long>(plan.lower_bound_bytes()));

  auto session = must(lowtide::Session::open(plan));
  for (const lowtide::ValueInfo& input : session.inputs()) {
    int64_t elements = 1;
    for (int64_t dim : input.dims) elements *= dim;
    if (input.dtype == "i64") must(session.write(input.name, std::vector<int64_t>(static_cast<size_t>(elements), 1)));
    if (input.dtype == "f32") must(session.write(input.name, std::vector<float>(static_cast<size_t>(elements), 0.5f)));
  }
  must(session.run());
  const float first = loss_of(session);
  for (int step = 0; step < 3; ++step) must(session.run());
  const float last = loss_of(session);
  std::printf("loss %f -> %f, arena %lld bytes\n", static_cast<double>(first), static_cast<double>(last),
              static_cast<long long>(session.arena_bytes()));
  return last < first ? 0 : 1;
}
