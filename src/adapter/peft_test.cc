// Oracles: PEFT's published rules (scale, pattern matching) worked out by hand; llama.cpp's row
// permutation written out as its reshape and swap of axes; import after export; and a list of bad
// adapters with the reason each must be refused for.
#include "adapter/peft.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <functional>

#include "adapter/card.h"
#include "adapter/peft_config.h"
#include "adapter/peft_rows.h"
#include "adapter/safetensors.h"
#include "adapter/small_base.h"
#include "base/json.h"

namespace retort::adapter {
namespace {

using base::Json;
using base::Path;

/// An adapter as PEFT would write it, editable.
struct Files {
  Json config = {{"peft_type", "LORA"},
                 {"r", 4},
                 {"lora_alpha", 8},
                 {"use_dora", true},
                 {"use_rslora", false},
                 {"bias", "none"},
                 {"target_modules", {"q_proj"}}};
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  std::map<std::string, Tensor> tensors;

  Files() { add("base_model.model.model.layers.0.self_attn.q_proj", 32, 32, 4, true); }
  void add(const std::string& stem, int64_t out, int64_t in, int64_t rank, bool dora) {
    base::Rng rng(out + in);
    tensors[stem + ".lora_A.weight"] = {{rank, in}, random_floats(rank * in, 1.0f, rng)};
    tensors[stem + ".lora_B.weight"] = {{out, rank}, random_floats(out * rank, 1.0f, rng)};
    if (dora) tensors[stem + ".lora_magnitude_vector"] = {{out}, random_floats(out, 1.0f, rng)};
  }
  void add_extra(const std::string& name) { tensors[name] = {{2}, {1.0f, 2.0f}}; }
  Tensor& at(const std::string& part) {
    return tensors.at("base_model.model.model.layers.0.self_attn.q_proj." + part);
  }
  std::string model() const {
    std::vector<FloatTensor> views;
    for (const auto& [name, tensor] : tensors) views.push_back({name, tensor.shape, tensor.values});
    return write_safetensors(views);
  }
  base::Result<AdapterWeights> parse(std::vector<std::string>* warnings = nullptr) const {
    const std::string bytes = model();
    return parse_peft(base::dump_json(config), std::as_bytes(std::span(bytes)), small_config(),
                      warnings);
  }
};

class PeftTest : public testing::Test {
 protected:
  PeftTest() {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("retort-peft-{}", getpid());
    std::filesystem::remove_all(folder_);
  }
  ~PeftTest() override { std::filesystem::remove_all(folder_); }
  Path folder_;
};

void expect_same(const AdapterWeights& a, const AdapterWeights& b) {
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.alpha, b.alpha);
  EXPECT_EQ(a.dora, b.dora);
  EXPECT_EQ(a.rslora, b.rslora);
  ASSERT_EQ(a.modules.size(), b.modules.size());
  for (size_t i = 0; i < a.modules.size(); ++i) {
    const ModuleWeights &x = a.modules[i], &y = b.modules[i];
    EXPECT_EQ(x.layer, y.layer);
    EXPECT_EQ(x.target, y.target);
    EXPECT_EQ(x.rank, y.rank);
    EXPECT_EQ(x.scale, y.scale);
    EXPECT_EQ(x.a, y.a);
    EXPECT_EQ(x.b, y.b);
    EXPECT_EQ(x.m, y.m);
  }
}

TEST_F(PeftTest, SavesAndLoadsEveryBit) {
  for (const bool dora : {true, false}) {
    for (const bool rslora : {true, false}) {
      AdapterWeights adapter = random_adapter(small_config(), dora, 5);
      adapter.rslora = rslora;
      adapter.alpha = 0.1f;
      for (size_t i = 0; i < adapter.modules.size(); ++i) {
        ModuleWeights& module = adapter.modules[i];
        module.scale = i % 3 == 0 ? 0.7f * static_cast<float>(i + 1)
                                  : static_cast<float>(peft_scale(0.1f, module.rank, rslora));
      }
      ASSERT_TRUE(save_peft(folder_, adapter, small_config(), "SmolLM2"));
      const auto loaded = load_peft(folder_, small_config());
      ASSERT_TRUE(loaded) << loaded.error().message;
      expect_same(*loaded, adapter);
      // Once more: what was imported is exported to the same bytes.
      const auto first = base::read_file(folder_ / kPeftModelFile).value();
      ASSERT_TRUE(save_peft(folder_, *loaded, small_config(), "SmolLM2"));
      EXPECT_EQ(base::read_file(folder_ / kPeftModelFile).value(), first);
    }
  }
}

TEST_F(PeftTest, NamesTargetsSoThatPeftAdaptsNothingElse) {
  AdapterWeights adapter = random_adapter(small_config(), true, 5);
  const auto targets = [&] {
    EXPECT_TRUE(save_peft(folder_, adapter, small_config(), "x"));
    const auto text = base::read_file(folder_ / kPeftConfigFile).value();
    return base::dump_json(base::parse_json(text).value()["target_modules"]);
  };
  EXPECT_EQ(targets(),
            R"(["q_proj","k_proj","v_proj","o_proj","gate_proj","up_proj","down_proj","lm_head"])");
  adapter.modules.erase(adapter.modules.begin() + 3, adapter.modules.end());
  EXPECT_EQ(targets(), R"(["model.layers.0.self_attn.q_proj","model.layers.0.self_attn.k_proj",)"
                       R"("model.layers.0.self_attn.v_proj"])");
}

TEST_F(PeftTest, PermutesRowsAsTheConverterDoes) {
  // llama.cpp: weights.reshape(heads, 2, out / heads / 2, in).swapaxes(1, 2).reshape(out, in)
  const auto converted = [](const std::vector<float>& rows, int heads, int64_t out) {
    const size_t half = static_cast<size_t>(out / heads / 2), width = rows.size() / size_t(out);
    std::vector<float> result;
    for (size_t head = 0; head < static_cast<size_t>(heads); ++head) {
      for (size_t i = 0; i < half; ++i) {
        for (size_t j = 0; j < 2; ++j) {
          const float* row = rows.data() + ((head * 2 + j) * half + i) * width;
          result.insert(result.end(), row, row + width);
        }
      }
    }
    return result;
  };
  Files files;
  files.add("base_model.model.model.layers.1.self_attn.k_proj", 16, 32, 4, true);
  files.add("base_model.model.model.layers.1.self_attn.v_proj", 16, 32, 4, true);
  const AdapterWeights adapter = files.parse().value();
  ASSERT_EQ(adapter.modules.size(), 3u);
  const auto stem = [](const char* module) {
    return std::string("base_model.model.model.layers.1.self_attn.") + module;
  };
  EXPECT_EQ(adapter.modules[0].b, converted(files.at("lora_B.weight").values, 4, 32));
  EXPECT_EQ(adapter.modules[0].m, converted(files.at("lora_magnitude_vector").values, 4, 32));
  EXPECT_EQ(adapter.modules[0].a, files.at("lora_A.weight").values);
  EXPECT_EQ(adapter.modules[1].b,
            converted(files.tensors[stem("k_proj") + ".lora_B.weight"].values, 2, 16));
  EXPECT_EQ(adapter.modules[2].b, files.tensors[stem("v_proj") + ".lora_B.weight"].values);

  engine::Config neox = small_config();
  neox.rope_interleaved = false;
  const std::string model = files.model();
  const auto plain =
      parse_peft(base::dump_json(files.config), std::as_bytes(std::span(model)), neox).value();
  EXPECT_EQ(plain.modules[0].b, files.at("lora_B.weight").values);
}

TEST_F(PeftTest, ScalesFollowThePatterns) {
  Files files;
  files.add("base_model.model.model.layers.1.mlp.down_proj", 32, 48, 16, true);
  files.config["rank_pattern"] = {{"down_proj", 16}};
  files.config["alpha_pattern"] = {{"layers.1.mlp.down_proj", 24.0}, {"proj", 999}};
  std::vector<std::string> warnings;
  auto adapter = files.parse(&warnings).value();
  EXPECT_EQ(adapter.modules[0].scale, 2.0f);  // 8 / 4
  EXPECT_EQ(adapter.modules[1].scale, 24.0f / 16.0f);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("\"proj\" matches no"), std::string::npos);

  files.config["use_rslora"] = true;
  adapter = files.parse().value();
  EXPECT_EQ(adapter.modules[0].scale, 4.0f);  // 8 / sqrt(4)
  EXPECT_EQ(adapter.modules[1].scale, 6.0f);  // 24 / sqrt(16)
  Files sixteen;
  sixteen.tensors.clear();
  sixteen.add("base_model.model.model.layers.0.self_attn.q_proj", 32, 32, 16, true);
  sixteen.config["r"] = 16, sixteen.config["lora_alpha"] = 16, sixteen.config["use_rslora"] = true;
  EXPECT_EQ(sixteen.parse()->modules[0].scale, 4.0f);
}

TEST_F(PeftTest, PatternsMatchAsPythonDoes) {
  // Each verdict is that of re.match(rf"(.*\.)?({key})$", path) in Python.
  const std::string path = "model.layers.11.self_attn.q_proj";
  const std::pair<const char*, bool> cases[] = {
      {"q_proj", true},
      {"proj", false},
      {"self_attn.q_proj", true},
      {"11.self_attn.q_proj", true},
      {"1.self_attn.q_proj", false},
      {"model.layers.11.self_attn.q_proj", true},
      {"xmodel.layers.11.self_attn.q_proj", false},
      {"self_attn.q", false},
      {"^q_proj", false},
      {"^model.*q_proj", true},
      {"(q|v)_proj", true},
      {"[kv]_proj", false},
      {".*\\.q_proj", true},
      {"layers\\.\\d+\\.self_attn\\.q_proj", true},
      {"layers\\.[0-9]\\.self_attn\\.q_proj", false},
      {"q_proj$", true},
      {"q.proj", true},
      {"", false},
  };
  for (const auto& [key, expected] : cases) {
    EXPECT_EQ(KeyPattern::create(key)->matches(path), expected) << key;
  }
  EXPECT_FALSE(KeyPattern::create("(q_proj"));
  EXPECT_FALSE(KeyPattern::create(std::string(300, 'a')));
  const auto hostile = KeyPattern::create("((a*)*)*b").value();
  EXPECT_FALSE(hostile.matches(std::string(40, 'a')));
}

TEST_F(PeftTest, AcceptsOtherPrefixesAndTiedOutputs) {
  for (const char* stem : {"model.layers.0.self_attn.q_proj", "layers.0.self_attn.q_proj",
                           "base_model.model.language_model.model.layers.0.self_attn.q_proj",
                           "base_model.model.model.language_model.layers.0.self_attn.q_proj"}) {
    Files files;
    files.tensors.clear();
    files.add(stem, 32, 32, 4, true);
    const auto adapter = files.parse();
    ASSERT_TRUE(adapter) << stem << ": " << adapter.error().message;
    EXPECT_EQ(adapter->modules.size(), 1u);
  }
  Files files;
  files.add("base_model.model.lm_head", 40, 32, 4, true);
  files.add_extra("base_model.model.lm_head.base_layer.weight");
  const auto adapter = files.parse().value();
  EXPECT_EQ(adapter.modules.back().target, engine::Target::kOutput);

  Files weighted;
  auto node = weighted.tensors.extract(
      "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector");
  node.key() += ".weight";
  weighted.tensors.insert(std::move(node));
  EXPECT_FALSE(weighted.parse()->modules[0].m.empty());
}

TEST_F(PeftTest, RefusesBadAdaptersByName) {
  const std::string q = "base_model.model.model.layers.0.self_attn.q_proj";
  using Change = std::function<void(Files&)>;
  const auto set = [](const char* key, Json value) -> Change {
    return [=](Files& f) { f.config[key] = value; };
  };
  const auto extra = [](const char* name) -> Change {
    return [=](Files& f) { f.add_extra(name); };
  };
  const std::vector<std::pair<Change, std::string>> cases = {
      {set("peft_type", "LOHA"), "peft_type LOHA"},
      {set("peft_type", 7), "\"peft_type\" should be a string"},
      {[](Files& f) { f.config.erase("peft_type"); }, "\"peft_type\" is missing"},
      {[](Files& f) { f.config.erase("r"); }, "\"r\" is missing"},
      {set("r", 0), "rank 0 is not"},
      {set("r", 4.5), "rank 4.5 is not"},
      {set("r", 100000), "rank 100000 is not"},
      {set("r", 8), "lora_A is [4, 32]; the base and the rank ask for [8, 32]"},
      {set("lora_alpha", "8"), "alpha \"8\" is not"},
      {set("lora_alpha", 1e300), "alpha 1e+300 is not"},
      {set("use_dora", "yes"), "use_dora should be true or false"},
      {set("use_dora", false), "use_dora is false, but the magnitude vector is there"},
      {[&](Files& f) { f.tensors.erase(q + ".lora_magnitude_vector"); },
       "use_dora is true, but the magnitude vector is missing"},
      {set("fan_in_fan_out", true), "fan_in_fan_out"},
      {set("use_qalora", true), "use_qalora"},
      {set("use_bdlora", {{"nblocks", 2}}), "use_bdlora"},
      {set("use_something_new", true), "use_something_new"},
      {set("modules_to_save", {"lm_head"}), "modules_to_save"},
      {set("layer_replication", {{0, 2}}), "layer_replication"},
      {set("target_parameters", {"experts"}), "target_parameters"},
      {set("trainable_token_indices", {1, 2}), "trainable_token_indices"},
      {set("alora_invocation_tokens", {1}), "alora_invocation_tokens"},
      {set("lora_bias", true), "lora_bias"},
      {set("bias", "all"), "trained biases"},
      {set("init_lora_weights", "pissa_niter_16"), "init_lora_weights = pissa_niter_16"},
      {set("init_lora_weights", "loftq"), "changes the base weights"},
      {set("rank_pattern", {{"(", 4}}), "not a regular expression"},
      {set("rank_pattern", {{"q_proj", -1}}), "rank -1 is not"},
      {set("rank_pattern", {1, 2}), "rank_pattern should be an object"},
      {set("target_modules", {"q_proj", 3}), "target_modules holds 3"},
      {[](Files& f) { f.tensors.clear(); }, "adapts no module"},
      {[&](Files& f) { f.tensors.erase(q + ".lora_B.weight"); }, "lora_B is missing"},
      {[&](Files& f) { f.tensors.erase(q + ".lora_A.weight"); }, "lora_A is missing"},
      {[](Files& f) {
         f.at("lora_A.weight").shape = {32, 4};
       },
       "lora_A is [32, 4]"},
      {[](Files& f) { f.at("lora_B.weight").shape = {128}; }, "lora_B is [128]"},
      {[](Files& f) {
         f.at("lora_magnitude_vector").shape = {4, 8};
       },
       "magnitude vector is [4, 8]"},
      {[](Files& f) { f.at("lora_A.weight").values[3] = NAN; }, "not a number"},
      {[](Files& f) { f.at("lora_B.weight").values[3] = INFINITY; }, "infinite"},
      {[](Files& f) { f.add("base_model.model.model.layers.2.self_attn.q_proj", 32, 32, 4, true); },
       "the base has 2 layers"},
      {[](Files& f) { f.add("model.layers.0.self_attn.q_proj", 32, 32, 4, true); },
       "is also given"},
      {extra("base_model.model.model.layers.0.mlp.q_proj.lora_A.weight"), "not a tensor of an"},
      {extra("base_model.model.model.layers.-1.mlp.up_proj.lora_A.weight"), "not a tensor of an"},
      {extra("base_model.model.model.layers.0.mlp.experts.3.up_proj.lora_A.weight"), "expected"},
      {extra("wrong.prefix.layers.0.self_attn.q_proj.lora_A.weight"), "expected names like"},
      {extra("base_model.model.model.embed_tokens.lora_embedding_A"), "embedding"},
      {extra("base_model.model.lm_head.weight"), "whole replaced matrices"},
      {extra("base_model.model.lm_head.modules_to_save.weight"), "modules_to_save"},
      {extra("base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"),
       "trained token rows"},
      {extra("base_model.model.model.layers.0.self_attn.q_proj.lora_B.bias"), "lora_bias"},
      {extra("base_model.model.model.layers.0.self_attn.q_proj.bias"), "trained biases"},
      {extra("layers.0.self_attn.q_proj.lora_down.weight"), "not PEFT's naming"},
      {extra("layers.0.self_attn.q_proj.alpha"), "not PEFT's naming"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    Files files;
    cases[i].first(files);
    const auto adapter = files.parse();
    ASSERT_FALSE(adapter) << i << ": accepted; expected: " << cases[i].second;
    EXPECT_NE(adapter.error().message.find(cases[i].second), std::string::npos)
        << i << ": " << adapter.error().message;
  }
  EXPECT_TRUE(Files().parse());
}

TEST_F(PeftTest, AcceptsPlainSettingsAndReportsIdleTargets) {
  Files files;
  files.config["rank_pattern"] = nullptr;
  files.config["alpha_pattern"] = nullptr;
  files.config["modules_to_save"] = nullptr;
  files.config["lora_alpha"] = 8.5;
  files.config["lora_dropout"] = 0.1;
  files.config["init_lora_weights"] = "gaussian";
  files.config["loftq_config"] = Json::object();
  files.config["target_modules"] = {"q_proj", "v_proj"};
  std::vector<std::string> warnings;
  EXPECT_EQ(files.parse(&warnings)->modules[0].scale, 8.5f / 4);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("v_proj"), std::string::npos);
}

TEST_F(PeftTest, FindsDirectories) {
  const AdapterWeights adapter = random_adapter(small_config(), true, 5);
  EXPECT_EQ(load_peft(folder_, small_config()).error().code, base::Code::kNotFound);
  ASSERT_TRUE(save_peft(folder_ / "named", adapter, small_config(), "x"));
  EXPECT_TRUE(load_peft(folder_, small_config())) << "the only subfolder";
  ASSERT_TRUE(save_peft(folder_ / "other", adapter, small_config(), "x"));
  EXPECT_NE(load_peft(folder_, small_config()).error().message.find("several"), std::string::npos);
  std::filesystem::rename(folder_ / "other" / kPeftModelFile, folder_ / "other/adapter_model.bin");
  EXPECT_NE(load_peft(folder_ / "other", small_config()).error().message.find("pickle"),
            std::string::npos);
  std::filesystem::remove(folder_ / "other/adapter_model.bin");
  EXPECT_EQ(load_peft(folder_ / "other", small_config()).error().code, base::Code::kNotFound);
}

TEST_F(PeftTest, RefusesToSaveAMixtureOfKinds) {
  AdapterWeights adapter = random_adapter(small_config(), true, 5);
  adapter.modules[4].m.clear();
  const auto saved = save_peft(folder_, adapter, small_config(), "x");
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().message.find("mixes them"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(PeftTest, CardRoundTripsAndNamesWhatIsWrong) {
  AdapterCard card;
  card.base = base::hash_text("base");
  card.base_name = "SmolLM2";
  card.content = base::hash_text("content");
  card.records = base::hash_text("records");
  card.created_s = 1'700'000'000;
  card.recipe = {{"steps", 300}};
  card.evaluation = {{"accuracy", 0.97}};
  card.samples = {{"2+2?", "4"}, {"\"quoted\"\n", "\xf0\x9f\x98\x80"}};
  ASSERT_TRUE(base::create_directories(folder_));
  ASSERT_TRUE(write_card(folder_, card));
  const AdapterCard read = read_card(folder_).value();
  EXPECT_EQ(read.base, card.base);
  EXPECT_EQ(read.base_name, card.base_name);
  EXPECT_EQ(read.content, card.content);
  EXPECT_EQ(read.records, card.records);
  EXPECT_EQ(read.created_s, card.created_s);
  EXPECT_EQ(read.recipe, card.recipe);
  EXPECT_EQ(read.evaluation, card.evaluation);
  ASSERT_EQ(read.samples.size(), 2u);
  EXPECT_EQ(read.samples[1].prompt, card.samples[1].prompt);
  EXPECT_EQ(read.samples[1].expected, card.samples[1].expected);

  const Json good = base::parse_json(base::read_file(folder_ / "retort.json").value()).value();
  const auto with = [&](const char* key, Json value) {
    Json bad = good;
    bad[key] = std::move(value);
    const auto parsed = parse_card(base::dump_json(bad));
    return parsed ? "accepted" : parsed.error().message;
  };
  EXPECT_NE(with("version", 2).find("version 2"), std::string::npos);
  EXPECT_NE(with("base", "xyz").find("base: \"xyz\" is not a hash"), std::string::npos);
  EXPECT_NE(with("samples", 3).find("samples"), std::string::npos);
  EXPECT_NE(with("samples", Json::array({{{"prompt", "x"}}})).find("expected"), std::string::npos);
  EXPECT_NE(with("recipe", "x").find("recipe"), std::string::npos);
  EXPECT_NE(with("created", "now").find("created"), std::string::npos);
}

}  // namespace
}  // namespace retort::adapter
