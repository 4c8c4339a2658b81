// JSON (nlohmann) without exceptions across our boundaries.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace retort::base {

using Json = nlohmann::ordered_json;

/// Parses strict UTF-8 JSON. kInvalidInput with the byte offset of the fault; lone surrogates,
/// invalid UTF-8 and duplicate top-level keys are faults.
[[nodiscard]] Result<Json> parse_json(std::string_view text);

/// One line, keys in insertion order. `value` must hold valid UTF-8 strings only.
[[nodiscard]] std::string dump_json(const Json& value, int indent = -1);

/// The string member `key`, or kInvalidInput naming the key and what stands there.
[[nodiscard]] Result<std::string> get_string(const Json& object, std::string_view key);
[[nodiscard]] Result<double> get_number(const Json& object, std::string_view key);
[[nodiscard]] Result<int64_t> get_integer(const Json& object, std::string_view key);

/// True if `text` is well-formed UTF-8 (no surrogates, no overlong forms).
[[nodiscard]] bool is_valid_utf8(std::string_view text);

}  // namespace retort::base
