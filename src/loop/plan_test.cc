// Oracles: the model once it is loaded, and proportions that hold whatever the machine's speed is.
#include "loop/plan.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/random_model.h"

namespace retort::loop {
namespace {

class Plans : public testing::Test {
 protected:
  void SetUp() override {
    engine::Config config = engine::tiny_config("qwen2");
    config.layers = 6, config.vocabulary = 5000;  // more tokens than an excerpt has
    ASSERT_TRUE(engine::write_random_model(path_, {.config = config}));
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Plan plan(int sessions, int64_t context, int64_t budget_mb = 1000) {
    PlanOptions options{.base = path_, .sessions = sessions, .context = context};
    options.workload = Workload::of(40, 50);
    options.recipe.train.memory_budget_mb = budget_mb;
    auto plan = make_plan(options, team_);
    EXPECT_TRUE(plan) << plan.error().message;
    return *std::move(plan);
  }

  static int64_t part(const Memory& memory, std::string_view what) {
    for (const MemoryPart& part : memory.parts) {
      if (part.what.starts_with(what)) return part.bytes;
    }
    return -1;
  }

  const base::Path path_ =
      std::filesystem::temp_directory_path() / fmt::format("retort-plan-test-{}.gguf", ::getpid());
  base::Team team_{2};
};

TEST_F(Plans, KnowTheWeightsBeforeTheyAreLoaded) {
  const Plan plan = this->plan(1, 64);
  const engine::Model model = engine::Model::open(path_, team_).value();
  EXPECT_EQ(part(plan.load, "weights"), model.weight_bytes());
  EXPECT_EQ(plan.architecture, "qwen2");
  EXPECT_EQ(plan.steps, 40);  // a record a step
  for (const double value :
       {plan.load_seconds, plan.decode_tokens_per_s, plan.decode_all_tokens_per_s,
        plan.prefill_tokens_per_s, plan.step_seconds, plan.evaluate_seconds}) {
    EXPECT_GT(value, 0);
    EXPECT_LT(value, 1e9);
  }
  EXPECT_GE(plan.train_seconds, static_cast<double>(plan.steps) * plan.step_seconds);
}

TEST_F(Plans, CountSessionsAndTheirContext) {
  const Plan one = plan(1, 64), many = plan(4, 64), longer = plan(1, 256);
  EXPECT_EQ(part(many.serve, "sessions"), 4 * part(one.serve, "sessions"));
  EXPECT_GT(part(longer.serve, "sessions"), part(one.serve, "sessions"));
  EXPECT_EQ(one.serve.bytes(), part(one.serve, "program") + part(one.serve, "weights") +
                                   part(one.serve, "activations") + part(one.serve, "sessions"));
}

TEST_F(Plans, StreamTheWeightsWithinABudget) {
  const Plan rich = plan(1, 64), poor = plan(1, 64, 1);
  EXPECT_FALSE(rich.streamed);
  EXPECT_TRUE(poor.streamed);
  EXPECT_GT(part(rich.distil, "weights transposed"), 0);
  EXPECT_EQ(part(poor.distil, "weights transposed"), -1);
  EXPECT_NE(to_text(poor).find("anew"), std::string::npos);
}

TEST_F(Plans, ComeAsJson) {
  const Plan plan = this->plan(2, 64);
  const base::Json json = to_json(plan);
  EXPECT_EQ(json["serve"]["memory"]["bytes"], plan.serve.bytes());
  EXPECT_EQ(json["train"]["steps"], plan.steps);
  EXPECT_TRUE(base::parse_json(base::dump_json(json)));
}

TEST_F(Plans, MeasureTheRecordsOfARecipe) {
  PlanOptions options{.base = path_, .context = 64, .draw = true};
  options.recipe = parse_recipe(
                       "name = \"x\"\n[teacher]\nkind = \"symbolic\"\nfamily = \"galois\"\n"
                       "records = 100\n[train]\nbatch = 5\nmicro_batch_rows = 1024\n",
                       "r.toml")
                       .value();
  const auto plan = make_plan(options, team_);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->steps, 20);
  EXPECT_GT(plan->workload.rows, plan->workload.targets);
  EXPECT_GE(static_cast<double>(plan->workload.longest), plan->workload.rows);
}

TEST_F(Plans, RefuseWhatIsNoModel) {
  PlanOptions options{.base = path_.string() + ".none"};
  EXPECT_EQ(make_plan(options, team_).error().code, base::Code::kNotFound);
  options.base = path_;
  options.workload = Workload::of(10, 100'000);
  EXPECT_EQ(make_plan(options, team_).error().code, base::Code::kLimit);
}

}  // namespace
}  // namespace retort::loop
