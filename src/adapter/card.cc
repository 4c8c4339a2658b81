#include "adapter/card.h"

#include <charconv>

namespace retort::adapter {
namespace {

using base::Code;
using base::Hash256;
using base::Json;
using base::Path;
using base::Result;

constexpr const char* kFile = "retort.json";
constexpr int64_t kVersion = 1;

Result<Hash256> get_hash(const Json& object, std::string_view key) {
  TRY_ASSIGN(const std::string text, base::get_string(object, key));
  auto hash = parse_hash(text);
  if (!hash) return in_context(key, std::move(hash).error());
  return hash;
}

Result<Json> get_object(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_object()) {
    return make_error(Code::kInvalidInput, "\"{}\" should be an object", key);
  }
  return *it;
}

Result<std::vector<AdapterCard::Sample>> get_samples(const Json& object) {
  std::vector<AdapterCard::Sample> samples;
  const auto it = object.find("samples");
  if (it == object.end() || !it->is_array()) {
    return make_error(Code::kInvalidInput, "\"samples\" should be an array");
  }
  for (const Json& sample : *it) {
    TRY_ASSIGN(std::string prompt, base::get_string(sample, "prompt"));
    TRY_ASSIGN(std::string expected, base::get_string(sample, "expected"));
    samples.push_back({std::move(prompt), std::move(expected)});
  }
  return samples;
}

}  // namespace

Result<Hash256> parse_hash(std::string_view hex) {
  Hash256 hash;
  bool good = hex.size() == 2 * hash.bytes.size();
  for (size_t i = 0; good && i < hash.bytes.size(); ++i) {
    const char* first = hex.data() + 2 * i;
    const auto [end, error] = std::from_chars(first, first + 2, hash.bytes[i], 16);
    good = error == std::errc() && end == first + 2;
  }
  if (good) return hash;
  return make_error(Code::kInvalidInput, "\"{}\" is not a hash of 64 hexadecimal digits",
                    hex.substr(0, 80));
}

Result<AdapterCard> parse_card(std::string_view text) {
  TRY_ASSIGN(const Json json, base::parse_json(text));
  TRY_ASSIGN(const int64_t version, base::get_integer(json, "version"));
  if (version != kVersion) {
    return make_error(Code::kMismatch, "version {}, this build reads {}", version, kVersion);
  }
  AdapterCard card;
  TRY_ASSIGN(card.base, get_hash(json, "base"));
  TRY_ASSIGN(card.base_name, base::get_string(json, "base_name"));
  TRY_ASSIGN(card.content, get_hash(json, "content"));
  TRY_ASSIGN(card.records, get_hash(json, "records"));
  TRY_ASSIGN(card.created_s, base::get_integer(json, "created"));
  TRY_ASSIGN(card.recipe, get_object(json, "recipe"));
  TRY_ASSIGN(card.evaluation, get_object(json, "evaluation"));
  TRY_ASSIGN(card.samples, get_samples(json));
  return card;
}

Result<AdapterCard> read_card(const Path& adapter_directory) {
  const Path path = adapter_directory / kFile;
  TRY_ASSIGN(const std::string text, base::read_file(path));
  auto card = parse_card(text);
  if (!card) return in_context(path.string(), std::move(card).error());
  return card;
}

Result<void> write_card(const Path& adapter_directory, const AdapterCard& card) {
  Json samples = Json::array();
  for (const auto& [prompt, expected] : card.samples) {
    samples.push_back({{"prompt", prompt}, {"expected", expected}});
  }
  const Json json = {{"version", kVersion},
                     {"base", card.base.hex()},
                     {"base_name", card.base_name},
                     {"content", card.content.hex()},
                     {"records", card.records.hex()},
                     {"created", card.created_s},
                     {"recipe", card.recipe},
                     {"evaluation", card.evaluation},
                     {"samples", samples}};
  return base::write_file_atomic(adapter_directory / kFile, base::dump_json(json, 2) + "\n");
}

}  // namespace retort::adapter
