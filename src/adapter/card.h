// retort.json, beside a PEFT adapter: where it comes from, how it scored, and samples with the
// output that it has to give. Other tools ignore the file.
#pragma once

#include <string>
#include <vector>

#include "base/disk.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/result.h"

namespace retort::adapter {

struct AdapterCard {
  struct Sample {
    std::string prompt;
    std::string expected;  // greedy output under the adapter
  };
  base::Hash256 base;  // fingerprint of the base it was trained on
  std::string base_name;
  base::Hash256 content;  // of the slot on that base
  base::Hash256 records;  // hash of the record set
  int64_t created_s = 0;  // Unix time
  base::Json recipe = base::Json::object();
  base::Json evaluation = base::Json::object();
  std::vector<Sample> samples;
};

[[nodiscard]] base::Result<AdapterCard> parse_card(std::string_view text);
[[nodiscard]] base::Result<AdapterCard> read_card(const base::Path& adapter_directory);
[[nodiscard]] base::Result<void> write_card(const base::Path& adapter_directory,
                                            const AdapterCard& card);

/// 64 hexadecimal digits; kInvalidInput otherwise.
[[nodiscard]] base::Result<base::Hash256> parse_hash(std::string_view hex);

}  // namespace retort::adapter
