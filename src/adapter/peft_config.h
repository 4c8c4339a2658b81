// adapter_config.json of PEFT: what of it changes an adapter's arithmetic. Every setting that
// Retort does not apply is refused by name, so that no adapter silently runs as something else.
#pragma once

#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace retort::adapter {

/// A key of rank_pattern or alpha_pattern. PEFT tests re.match("(.*\.)?(KEY)$", module path): the
/// key is a regular expression that has to match a suffix of the path beginning at a dot.
class KeyPattern {
 public:
  [[nodiscard]] static base::Result<KeyPattern> create(std::string key);
  bool matches(std::string_view path) const;
  const std::string& key() const { return key_; }

 private:
  std::string key_;
  std::optional<std::regex> regex_;  // none: letters, digits, "_" and "." only
};

struct PatternValue {
  KeyPattern pattern;
  double value = 0;
};

struct PeftConfig {
  int64_t rank = 0;
  double alpha = 0;
  bool dora = false;
  bool rslora = false;
  std::vector<PatternValue> rank_pattern,
      alpha_pattern;                        // in the file's order: the first match wins
  std::vector<std::string> target_modules;  // empty where given as a regex or "all-linear"

  int64_t rank_of(std::string_view path) const;
  double alpha_of(std::string_view path) const;
};

/// s = alpha / r, or alpha / sqrt(r) with rsLoRA.
double peft_scale(double alpha, int64_t rank, bool rslora);

[[nodiscard]] base::Result<PeftConfig> parse_peft_config(std::string_view text);

}  // namespace retort::adapter
