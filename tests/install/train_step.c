// A C11 program on the installed library: plans a training step through lowtide/lowtide.h, runs it
// on data of its own, reads loss and weights back, and checks what the header promises about
// errors.
//
//     train_step model.onnx plan.lt        writes the plan, loads it again, runs it
#include <lowtide/lending.h>
#include <lowtide/lowtide.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
              lowtide_last_error());                                                          \
      exit(1);                                                                                \
    }                                                                                         \
  } while (0)

static void check_refusals(const char* path) {
  lowtide_model* model = NULL;
  CHECK(strcmp(lowtide_last_error(), "") == 0);
  CHECK(lowtide_model_read("no-such-file.onnx", NULL, &model) == LOWTIDE_INPUT);
  CHECK(model == NULL && strstr(lowtide_last_error(), "no-such-file.onnx") != NULL);
  CHECK(lowtide_model_read(path, "{\"dimms\": {}}", &model) == LOWTIDE_USAGE);
  CHECK(strstr(lowtide_last_error(), "'dimms' is not known; known are dims, training, dropout") !=
        NULL);
  CHECK(lowtide_model_read(NULL, NULL, &model) == LOWTIDE_USAGE);
  CHECK(lowtide_plan_make(NULL, NULL, NULL) == LOWTIDE_USAGE);
  CHECK(lowtide_plan_peak_bytes(NULL) == 0 && lowtide_plan_text(NULL) == NULL);
  lowtide_model_free(NULL);
  lowtide_plan_free(NULL);
  lowtide_session_free(NULL);
}

static lowtide_plan* make_plan(const char* path) {
  lowtide_model* model = NULL;
  CHECK(lowtide_model_read(path, NULL, &model) == LOWTIDE_OK);
  CHECK(lowtide_model_free_dim_count(model) == 1);
  CHECK(strcmp(lowtide_model_free_dim(model, 0), "batch") == 0);
  CHECK(lowtide_model_free_dim(model, 1) == NULL);
  lowtide_plan* plan = NULL;
  CHECK(lowtide_plan_make(model, NULL, &plan) == LOWTIDE_USAGE);
  CHECK(plan == NULL && strstr(lowtide_last_error(), "batch") != NULL);
  lowtide_model_free(model);
  CHECK(lowtide_model_read(path, "{\"dims\": {\"batch\": 1}, \"training\": true}", &model) ==
        LOWTIDE_OK);
  CHECK(strlen(lowtide_model_name(model)) > 0);
  CHECK(lowtide_plan_make(model, "{\"train\": true, \"budget_bytes\": 100}", &plan) ==
        LOWTIDE_INFEASIBLE);
  CHECK(lowtide_plan_make(model,
                          "{\"train\": true, \"optimizer\": \"sgd\", \"learning_rate\": 0.01}",
                          &plan) == LOWTIDE_OK);
  lowtide_model_free(model);
  return plan;
}

static void fill_inputs(lowtide_session* session) {
  const size_t count = lowtide_session_value_count(session, LOWTIDE_INPUTS);
  CHECK(count >= 2);  // data and labels
  for (size_t i = 0; i < count; ++i) {
    lowtide_value value;
    CHECK(lowtide_session_value(session, LOWTIDE_INPUTS, i, &value) == LOWTIDE_OK);
    void* contents = calloc(1, value.bytes);
    if (strcmp(value.dtype, "f32") == 0)
      for (size_t k = 0; k < value.bytes / sizeof(float); ++k)
        ((float*)contents)[k] = (float)(k % 7) / 7;
    CHECK(lowtide_session_set(session, value.name, contents, value.bytes) == LOWTIDE_OK);
    CHECK(lowtide_session_set(session, value.name, contents, value.bytes + 1) == LOWTIDE_USAGE);
    free(contents);
  }
  lowtide_value none;
  CHECK(lowtide_session_value(session, LOWTIDE_INPUTS, count, &none) == LOWTIDE_USAGE);
  CHECK(lowtide_session_value(session, 7, 0, &none) == LOWTIDE_USAGE);
}

static float loss_of(const lowtide_session* session) {
  float loss = 0;
  CHECK(lowtide_session_get(session, "loss", &loss, sizeof loss) == LOWTIDE_OK);
  return loss;
}

// The same steps with a weight in memory of our own: `weight` before them, `wanted` after three.
static void run_lent(const lowtide_plan* plan, const char* name, float* weight, size_t bytes,
                     const float* wanted) {
  char options[512];
  CHECK(snprintf(options, sizeof options,
                 "{\"seed\": 3, \"seed_missing_weights\": true, \"lent\": [\"%s\"]}",
                 name) < (int)sizeof options);
  lowtide_session* session = NULL;
  CHECK(lowtide_session_open(plan, options, &session) == LOWTIDE_OK);
  fill_inputs(session);
  CHECK(lowtide_session_run(session, 1) == LOWTIDE_USAGE);
  CHECK(strstr(lowtide_last_error(), "no memory was lent for value") != NULL);
  CHECK(lowtide_session_lend(session, name, weight, bytes - 1) == LOWTIDE_USAGE);
  CHECK(lowtide_session_lend(session, name, weight, bytes) == LOWTIDE_OK);
  CHECK(lowtide_session_lent_bytes(session) >= (int64_t)bytes);
  double seconds = 0;
  CHECK(lowtide_session_rehearse(session, &seconds) == LOWTIDE_OK && seconds > 0);
  CHECK(lowtide_session_run(session, 2) == LOWTIDE_OK);
  int32_t done = 0;
  CHECK(lowtide_session_run_if_finite(session, "loss", &done) == LOWTIDE_OK && done == 1);
  CHECK(memcmp(weight, wanted, bytes) == 0);
  const lowtide_update still = {0};
  CHECK(lowtide_session_set_seed(session, 3) == LOWTIDE_OK);
  CHECK(lowtide_session_set_update(session, "nothing", &still) == LOWTIDE_USAGE);
  CHECK(lowtide_session_set_update(session, name, &still) == LOWTIDE_OK);
  CHECK(lowtide_session_run(session, 1) == LOWTIDE_OK);
  CHECK(memcmp(weight, wanted, bytes) == 0);
  lowtide_session_free(session);
}

static void run(const lowtide_plan* plan) {
  lowtide_session* session = NULL;
  CHECK(lowtide_session_open(plan, "{\"seed\": 3, \"seed_missing_weights\": true}", &session) ==
        LOWTIDE_OK);
  CHECK(lowtide_session_arena_bytes(session) == lowtide_plan_arena_bytes(plan));
  fill_inputs(session);
  lowtide_value weight;
  CHECK(lowtide_session_value(session, LOWTIDE_PARAMETERS, 0, &weight) == LOWTIDE_OK &&
        weight.rank > 0);
  float* before = malloc(weight.bytes);
  float* after = malloc(weight.bytes);
  CHECK(lowtide_session_get(session, weight.name, before, weight.bytes) == LOWTIDE_OK);
  CHECK(lowtide_session_run(session, 1) == LOWTIDE_OK);
  const float first = loss_of(session);
  CHECK(lowtide_session_run(session, 2) == LOWTIDE_OK);
  CHECK(lowtide_session_get(session, weight.name, after, weight.bytes) == LOWTIDE_OK);
  CHECK(memcmp(before, after, weight.bytes) != 0);
  CHECK(lowtide_session_get(session, weight.name, after, 1) == LOWTIDE_USAGE);
  CHECK(lowtide_session_get(session, "nothing", after, 4) == LOWTIDE_USAGE);
  printf("loss %f -> %f\n", (double)first, (double)loss_of(session));
  CHECK(loss_of(session) < first);
  CHECK(lowtide_session_get(session, weight.name, after, weight.bytes) == LOWTIDE_OK);
  run_lent(plan, weight.name, before, weight.bytes, after);
  free(before);
  free(after);
  lowtide_session_free(session);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  CHECK(lowtide_abi_version() == LOWTIDE_ABI_VERSION);
  check_refusals(argv[1]);
  lowtide_plan* made = make_plan(argv[1]);
  CHECK(lowtide_plan_lower_bound_bytes(made) <= lowtide_plan_peak_bytes(made));
  CHECK(lowtide_plan_peak_bytes(made) <= lowtide_plan_peak_before_bytes(made));
  CHECK(strstr(lowtide_plan_json(made), "\"peak_bytes\"") != NULL);
  CHECK(lowtide_plan_json(made) == lowtide_plan_json(made));
  CHECK(lowtide_plan_save(made, argv[2]) == LOWTIDE_OK);
  lowtide_plan_free(made);
  lowtide_plan* plan = NULL;
  CHECK(lowtide_plan_load(argv[2], &plan) == LOWTIDE_OK);
  CHECK(lowtide_plan_verify(plan) == LOWTIDE_OK);
  run(plan);
  lowtide_plan_free(plan);
  printf("lowtide %s\n", lowtide_version());
  return 0;
}
