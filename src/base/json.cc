#include "base/json.h"

#include <functional>
#include <unordered_set>

namespace retort::base {
namespace {

/// Length of the UTF-8 sequence at text[i], or 0 if it is malformed.
size_t utf8_length(std::string_view text, size_t i) {
  const auto byte = [&](size_t j) { return static_cast<unsigned char>(text[j]); };
  const unsigned char lead = byte(i);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || i + length > text.size()) return 0;
  for (size_t j = 1; j < length; ++j) {
    if ((byte(i + j) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(i + 1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second >= 0xa0;
  const bool too_large = lead == 0xf4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

tl::unexpected<Error> wrong_type(std::string_view key, std::string_view wanted, const Json& found) {
  return make_error(Code::kInvalidInput, "\"{}\" should be {}, but is {}", key, wanted,
                    found.type_name());
}

/// Notes a key that stands twice in the outermost object; by itself the parser keeps the last
/// value.
class RepeatedKey {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!seen_.insert(key).second) repeated_ = key;
    }
    return true;
  }
  const std::optional<std::string>& repeated() const { return repeated_; }

 private:
  std::unordered_set<std::string> seen_;
  std::optional<std::string> repeated_;
};

template <class Predicate>
Result<const Json*> get_member(const Json& object, std::string_view key, std::string_view wanted,
                               Predicate predicate) {
  if (!object.is_object()) {
    return make_error(Code::kInvalidInput, "expected an object, found {}", object.type_name());
  }
  const auto it = object.find(std::string(key));
  if (it == object.end()) return make_error(Code::kInvalidInput, "\"{}\" is missing", key);
  if (!predicate(*it)) return wrong_type(key, wanted, *it);
  return &*it;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

Result<Json> parse_json(std::string_view text) {
  if (!is_valid_utf8(text)) return make_error(Code::kInvalidInput, "not valid UTF-8");
  try {
    RepeatedKey keys;
    Json json = Json::parse(text, std::ref(keys));
    if (!keys.repeated()) return json;
    return make_error(Code::kInvalidInput, "\"{}\" is given twice", *keys.repeated());
  } catch (const Json::exception& e) {
    std::string_view what = e.what();
    if (const size_t at = what.find("] "); at != std::string_view::npos) what.remove_prefix(at + 2);
    return make_error(Code::kInvalidInput, "not valid JSON: {}", what);
  }
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Result<std::string> get_string(const Json& object, std::string_view key) {
  TRY_ASSIGN(const Json* member,
             get_member(object, key, "a string", [](const Json& j) { return j.is_string(); }));
  return member->get<std::string>();
}

Result<double> get_number(const Json& object, std::string_view key) {
  TRY_ASSIGN(const Json* member,
             get_member(object, key, "a number", [](const Json& j) { return j.is_number(); }));
  return member->get<double>();
}

Result<int64_t> get_integer(const Json& object, std::string_view key) {
  TRY_ASSIGN(const Json* member, get_member(object, key, "an integer",
                                            [](const Json& j) { return j.is_number_integer(); }));
  return member->get<int64_t>();
}

}  // namespace retort::base
