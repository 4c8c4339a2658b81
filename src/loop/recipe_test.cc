// Oracles: the values written in the text, and for each fault the line it stands on.
#include "loop/recipe.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace retort::loop {
namespace {

using namespace std::string_literals;

constexpr std::string_view kGood = R"(name = "mine"
[teacher]
kind = "symbolic"
family = "galois"
)";

TEST(Recipe, ReadsEveryKey) {
  const auto recipe = parse_recipe(R"(
name = "mine"
base = "model.gguf"
[teacher]
kind = "file"
records_file = "mine.jsonl"
records = 12
seed = 7
trust = true
[train]
rank = 8
alpha = 4            # an integer will do for a number
dora = false
rslora = true
learning_rate = 1e-3
final_rate = 0.2
warmup = 0.1
weight_decay = 0.01
clip = 1
batch = 2
epochs = 1.5
seed = 3
tokens_max = 300
micro_batch_rows = 400
memory_budget_mb = 2000
[train.ranks]
q_proj = 4
down_proj = -1
[eval]
held_out = 5
extrapolation = 6
validation = 7
validations = 8
shots = 9
base = false
arms = ["lora", "answer-only"]
)",
                                   "r.toml");
  ASSERT_TRUE(recipe) << recipe.error().message;
  EXPECT_EQ(recipe->name, "mine");
  EXPECT_EQ(recipe->base, "model.gguf");
  EXPECT_EQ(recipe->teacher.kind, "file");
  EXPECT_EQ(recipe->teacher.records_file, "mine.jsonl");
  EXPECT_EQ(recipe->teacher.records, 12);
  EXPECT_EQ(recipe->teacher.seed, 7u);
  EXPECT_TRUE(recipe->teacher.trust);
  const train::Options& train = recipe->train;
  EXPECT_EQ(train.rank, 8);
  EXPECT_EQ(train.alpha, 4.0f);
  EXPECT_FALSE(train.dora);
  EXPECT_TRUE(train.rslora);
  EXPECT_EQ(train.learning_rate, 1e-3f);
  EXPECT_EQ(train.final_rate, 0.2f);
  EXPECT_EQ(train.warmup, 0.1f);
  EXPECT_EQ(train.weight_decay, 0.01f);
  EXPECT_EQ(train.clip, 1.0f);
  EXPECT_EQ(train.batch, 2);
  EXPECT_EQ(train.epochs, 1.5);
  EXPECT_EQ(train.seed, 3u);
  EXPECT_EQ(train.tokens_max, 300);
  EXPECT_EQ(train.micro_batch_rows, 400);
  EXPECT_EQ(train.memory_budget_mb, 2000);
  EXPECT_EQ(train.target_ranks, (std::array<int64_t, 7>{4, 0, 0, 0, 0, 0, -1}));
  EXPECT_EQ(recipe->eval.held_out, 5);
  EXPECT_EQ(recipe->eval.extrapolation, 6);
  EXPECT_EQ(recipe->eval.validation, 7);
  EXPECT_EQ(recipe->eval.validations, 8);
  EXPECT_EQ(recipe->eval.shots, 9);
  EXPECT_FALSE(recipe->eval.base);
  EXPECT_EQ(recipe->eval.arms, (std::vector<std::string>{"lora", "answer-only"}));
}

TEST(Recipe, LeavesTheRestAtItsDefaults) {
  const auto recipe = parse_recipe(kGood, "r.toml");
  ASSERT_TRUE(recipe) << recipe.error().message;
  EXPECT_EQ(recipe->teacher.records, Recipe{}.teacher.records);
  EXPECT_EQ(recipe->train.rank, train::Options{}.rank);
  EXPECT_TRUE(recipe->eval.arms.empty());
}

struct Bad {
  const char* name;
  std::string text;
  int line;
  const char* words;  // that the message has
};

class BadRecipe : public testing::TestWithParam<Bad> {};

TEST_P(BadRecipe, IsRefusedWithItsLine) {
  const auto recipe = parse_recipe(GetParam().text, "bad.toml");
  ASSERT_FALSE(recipe);
  const std::string& message = recipe.error().message;
  EXPECT_EQ(recipe.error().code, base::Code::kInvalidInput);
  EXPECT_TRUE(message.starts_with(fmt::format("bad.toml:{}: ", GetParam().line))) << message;
  EXPECT_NE(message.find(GetParam().words), std::string::npos) << message;
}

std::string good_and(std::string_view more) { return std::string(kGood) + std::string(more); }

INSTANTIATE_TEST_SUITE_P(
    Corpus, BadRecipe,
    testing::ValuesIn(std::vector<Bad>{
        {"Empty", "", 1, "name is missing"},
        {"NoName", "[teacher]\nkind = \"symbolic\"\nfamily = \"galois\"\n", 1, "name is missing"},
        {"NoTeacher", "name = \"x\"\n", 1, "[teacher] is missing"},
        {"NoKind", "name = \"x\"\n[teacher]\nfamily = \"galois\"\n", 2, "teacher.kind is missing"},
        {"UnknownKind", "name = \"x\"\n[teacher]\nkind = \"oracle\"\n", 3,
         "\"symbolic\" or \"file\""},
        {"NoFamily", "name = \"x\"\n\n[teacher]\nkind = \"symbolic\"\n", 3,
         "teacher.family is missing"},
        {"NoFile", "name = \"x\"\n[teacher]\nkind = \"file\"\n", 2,
         "teacher.records_file is missing"},
        {"NotToml", "name = \"x\"\nthis is no TOML\n", 2, ""},
        {"OpenString", "name = \"x\n", 1, ""},
        {"DoubleKey", "name = \"x\"\nname = \"y\"\n", 2, "name"},
        {"NotUtf8", "name = \"\xff\xfe\"\n", 1, ""},
        {"Nul", "name = \"x\"\n# \0\n"s, 2, "NUL"},
        {"UnknownTopKey", good_and("[traim]\nrank = 8\n"), 5, "unknown key traim"},
        {"UnknownKey", good_and("[train]\nrank = 8\nlearning_rat = 1.0\n"), 7,
         "unknown key train.learning_rat; known here"},
        {"UnknownTarget", good_and("[train.ranks]\nx_proj = 4\n"), 6,
         "unknown key train.ranks.x_proj"},
        {"NameIsNumber", "name = 3\n", 1, "name should be a string"},
        {"TrainIsNumber", "name = \"x\"\ntrain = 3\n", 2, "train should be a table"},
        {"RankIsString", good_and("[train]\nrank = \"8\"\n"), 6, "train.rank should be an integer"},
        {"RankIsFraction", good_and("[train]\nrank = 8.5\n"), 6, "train.rank should be an integer"},
        {"RanksIsNumber", good_and("[train]\nranks = 8\n"), 6, "train.ranks should be a table"},
        {"DoraIsNumber", good_and("[train]\ndora = 1\n"), 6, "train.dora should be true or false"},
        {"RateIsString", good_and("[train]\nlearning_rate = \"fast\"\n"), 6, "should be a number"},
        {"BatchOverflows", good_and("[train]\nbatch = 4294967300\n"), 6,
         "train.batch should be an integer"},
        {"NegativeSeed", good_and("[train]\nseed = -1\n"), 6, "at least 0"},
        {"NegativeRecords", good_and("records = -5\n"), 5, "teacher.records should be within 1"},
        {"NoHeldOut", good_and("[eval]\nheld_out = 0\n"), 6, "eval.held_out should be within 1"},
        {"NegativeShots", good_and("[eval]\nbase = true\nshots = -1\n"), 7,
         "eval.shots should be within 0"},
        {"TooMany", good_and("[eval]\nheld_out = 9000000000000000000\n"), 6, "eval.held_out"},
        {"UnknownArm", good_and("[eval]\narms = [\n  \"lora\",\n  \"magic\",\n]\n"), 8,
         "eval.arms knows"},
        {"ArmsIsString", good_and("[eval]\narms = \"lora\"\n"), 6, "eval.arms should be an array"},
        {"RankZero", good_and("[train]\nrank = 0\n"), 5, "train.rank is 0"},
        {"BatchZero", good_and("[train]\nbatch = 0\n"), 5, "train.batch is 0"},
        {"RateNotANumber", good_and("[train]\nlearning_rate = nan\n"), 5,
         "train.learning_rate is nan"},
        {"NoRows", good_and("[train]\nmicro_batch_rows = 0\n"), 5, "train.micro_batch_rows is 0"},
    }),
    [](const testing::TestParamInfo<Bad>& info) { return info.param.name; });

TEST(Recipe, TakesPathsFromItsOwnFolder) {
  const base::Path folder =
      std::filesystem::temp_directory_path() / fmt::format("retort-recipe-{}", ::getpid());
  std::filesystem::create_directories(folder);
  const base::Path path = folder / "r.toml";
  ASSERT_TRUE(base::write_file_atomic(
      path, std::string_view("name = \"x\"\nbase = \"/models/m.gguf\"\n[teacher]\nkind = \"file\"\n"
                             "records_file = \"data/r.jsonl\"\n")));
  const auto recipe = load_recipe(path);
  ASSERT_TRUE(recipe) << recipe.error().message;
  EXPECT_EQ(recipe->base, "/models/m.gguf");
  EXPECT_EQ(recipe->teacher.records_file, folder / "data/r.jsonl");
  EXPECT_EQ(load_recipe(folder / "none.toml").error().code, base::Code::kNotFound);
  std::filesystem::remove_all(folder);
}

/// Oracle: the program's own recipes are good ones.
TEST(Recipe, ThoseThatComeWithTheProgramLoad) {
  int n = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(base::Path(RETORT_SOURCE_DIR) / "recipes")) {
    if (entry.path().extension() != ".toml") continue;
    const auto recipe = load_recipe(entry.path());
    EXPECT_TRUE(recipe) << recipe.error().message;
    ++n;
  }
  EXPECT_GT(n, 0);
}

}  // namespace
}  // namespace retort::loop
