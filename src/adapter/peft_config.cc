#include "adapter/peft_config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/json.h"
#include "base/limits.h"

namespace retort::adapter {
namespace {

using base::Code;
using base::Json;
using base::Result;

/// What a setting may be without changing the arithmetic.
bool is_off(const Json& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  return (value.is_array() || value.is_object() || value.is_string()) && value.empty();
}

/// Settings that have to be off. Others beginning with "use_" are refused too: PEFT names its
/// variants so, and one that we do not know changes the arithmetic.
constexpr std::array kRefused = {
    "modules_to_save",  "layer_replication", "target_parameters", "trainable_token_indices",
    "fan_in_fan_out",   "lora_bias",         "arrow_config",      "alora_invocation_tokens",
    "monteclora_config"};
constexpr std::array kKnownUses = {"use_dora", "use_rslora"};
/// Initialisations that change the base weights: the adapter is wrong on the stock base.
constexpr std::array kBaseChanging = {"pissa", "olora", "corda", "loftq"};

Result<void> refuse_unsupported(const Json& config) {
  for (const auto& [key, value] : config.items()) {
    const bool known = std::find(kKnownUses.begin(), kKnownUses.end(), key) != kKnownUses.end();
    const bool refused = std::find(kRefused.begin(), kRefused.end(), key) != kRefused.end();
    if ((refused || (key.starts_with("use_") && !known)) && !is_off(value)) {
      return make_error(Code::kUnsupported, "{} = {} is not supported", key,
                        base::dump_json(value).substr(0, 80));
    }
  }
  if (const auto bias = config.find("bias"); bias != config.end() && !is_off(*bias)) {
    if (*bias != "none") return make_error(Code::kUnsupported, "trained biases are not supported");
  }
  const auto init = config.find("init_lora_weights");
  if (init == config.end() || !init->is_string()) return {};
  const auto name = init->get<std::string>();
  for (const char* prefix : kBaseChanging) {
    if (!name.starts_with(prefix)) continue;
    return make_error(Code::kUnsupported,
                      "init_lora_weights = {} changes the base weights, so the adapter is wrong on "
                      "the stock base; convert it to a plain LoRA first",
                      name);
  }
  return {};
}

Result<bool> flag(const Json& config, const char* key) {
  const auto it = config.find(key);
  if (it == config.end() || it->is_null()) return false;
  if (!it->is_boolean()) return make_error(Code::kInvalidInput, "{} should be true or false", key);
  return it->get<bool>();
}

Result<int64_t> check_rank(const std::string& key, const Json& value) {
  if (!value.is_number_integer() || value.get<double>() < 1 ||
      value.get<double>() > limits::kRankMax) {
    return make_error(Code::kInvalidInput, "{}: rank {} is not a whole number in 1..{}", key,
                      base::dump_json(value).substr(0, 40), limits::kRankMax);
  }
  return value.get<int64_t>();
}

Result<double> check_alpha(const std::string& key, const Json& value) {
  if (!value.is_number() || !(std::abs(value.get<double>()) <= 1e9)) {
    return make_error(Code::kInvalidInput, "{}: alpha {} is not a sensible number", key,
                      base::dump_json(value).substr(0, 40));
  }
  return value.get<double>();
}

template <class Check>
Result<std::vector<PatternValue>> patterns(const Json& config, const char* name, Check check) {
  std::vector<PatternValue> result;
  const auto it = config.find(name);
  if (it == config.end() || it->is_null()) return result;
  if (!it->is_object()) return make_error(Code::kInvalidInput, "{} should be an object", name);
  if (it->size() > limits::kPatternsMax) {
    return make_error(Code::kLimit, "{} has {} keys; at most {}", name, it->size(),
                      limits::kPatternsMax);
  }
  for (const auto& [key, value] : it->items()) {
    TRY_ASSIGN(KeyPattern pattern, KeyPattern::create(key));
    TRY_ASSIGN(const auto number, check(key, value));
    result.push_back({std::move(pattern), static_cast<double>(number)});
  }
  return result;
}

Result<std::vector<std::string>> target_list(const Json& config) {
  std::vector<std::string> names;
  const auto it = config.find("target_modules");
  if (it == config.end() || !it->is_array()) return names;
  for (const Json& name : *it) {
    if (!name.is_string()) {
      return make_error(Code::kInvalidInput, "target_modules holds {}", base::dump_json(name));
    }
    names.push_back(name.get<std::string>());
  }
  return names;
}

const PatternValue* first_match(const std::vector<PatternValue>& patterns, std::string_view path) {
  for (const PatternValue& candidate : patterns) {
    if (candidate.pattern.matches(path)) return &candidate;
  }
  return nullptr;
}

}  // namespace

Result<KeyPattern> KeyPattern::create(std::string key) {
  KeyPattern pattern;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  };
  if (key.size() > limits::kPatternBytesMax) {
    return make_error(Code::kLimit, "a pattern of {} bytes; at most {}", key.size(),
                      limits::kPatternBytesMax);
  }
  if (!std::all_of(key.begin(), key.end(), plain)) {
    auto flags = std::regex::ECMAScript;
#ifdef __GLIBCXX__
    flags |= std::regex_constants::__polynomial;  // no exponential time on a hostile pattern
#endif
    try {
      pattern.regex_.emplace("(.*\\.)?(" + key + ")", flags);
    } catch (const std::regex_error& e) {
      return make_error(Code::kInvalidInput, "the pattern \"{}\" is not a regular expression: {}",
                        key, e.what());
    }
  }
  pattern.key_ = std::move(key);
  return pattern;
}

bool KeyPattern::matches(std::string_view path) const {
  if (regex_) return std::regex_match(path.begin(), path.end(), *regex_);
  if (path.size() < key_.size()) return false;
  const size_t start = path.size() - key_.size();
  if (start > 0 && path[start - 1] != '.') return false;
  return std::equal(key_.begin(), key_.end(), path.begin() + static_cast<std::ptrdiff_t>(start),
                    [](char k, char p) { return k == '.' || k == p; });
}

int64_t PeftConfig::rank_of(std::string_view path) const {
  const PatternValue* match = first_match(rank_pattern, path);
  return match != nullptr ? static_cast<int64_t>(match->value) : rank;
}

double PeftConfig::alpha_of(std::string_view path) const {
  const PatternValue* match = first_match(alpha_pattern, path);
  return match != nullptr ? match->value : alpha;
}

double peft_scale(double alpha, int64_t rank, bool rslora) {
  const auto r = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(r) : r);
}

Result<PeftConfig> parse_peft_config(std::string_view text) {
  TRY_ASSIGN(const Json json, base::parse_json(text));
  TRY_ASSIGN(const std::string type, base::get_string(json, "peft_type"));
  if (type != "LORA") {
    return make_error(Code::kUnsupported, "peft_type {}; only LORA is supported", type);
  }
  TRY(refuse_unsupported(json));
  PeftConfig config;
  for (const char* key : {"r", "lora_alpha"}) {
    if (!json.contains(key)) return make_error(Code::kInvalidInput, "\"{}\" is missing", key);
  }
  TRY_ASSIGN(config.rank, check_rank("r", json["r"]));
  TRY_ASSIGN(config.alpha, check_alpha("lora_alpha", json["lora_alpha"]));
  TRY_ASSIGN(config.dora, flag(json, "use_dora"));
  TRY_ASSIGN(config.rslora, flag(json, "use_rslora"));
  TRY_ASSIGN(config.rank_pattern, patterns(json, "rank_pattern", check_rank));
  TRY_ASSIGN(config.alpha_pattern, patterns(json, "alpha_pattern", check_alpha));
  TRY_ASSIGN(config.target_modules, target_list(json));
  return config;
}

}  // namespace retort::adapter
