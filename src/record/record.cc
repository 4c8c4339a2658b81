#include "record/record.h"

#include <array>

#include "base/hash.h"
#include "record/text.h"

namespace retort::record {
namespace {

using base::Code;
using base::Json;
using base::make_error;
using base::Result;

constexpr std::array kStandings = {Standing::kVerified, Standing::kAgreed, Standing::kDeclared};

Result<void> require_text(std::string_view key, std::string_view text) {
  if (is_blank(text)) return make_error(Code::kInvalidInput, "\"{}\" is empty", key);
  if (text.find('\0') != std::string_view::npos) {
    return make_error(Code::kInvalidInput, "\"{}\" contains a NUL character", key);
  }
  return {};
}

/// The string `key`, which has to be there and to say something.
Result<std::string> required(const Json& json, std::string_view key) {
  TRY_ASSIGN(std::string text, base::get_string(json, key));
  TRY(require_text(key, text));
  return text;
}

bool is_present(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && !it->is_null();
}

/// A label: absent and null both mean none.
Result<std::string> optional_label(const Json& json, const char* key) {
  if (!is_present(json, key)) return std::string();
  TRY_ASSIGN(std::string text, base::get_string(json, key));
  if (text.find('\0') != std::string::npos) {
    return make_error(Code::kInvalidInput, "\"{}\" contains a NUL character", key);
  }
  return text;
}

Result<Message> read_message(const Json& json) {
  Message message;
  TRY_ASSIGN(message.role, base::get_string(json, "role"));
  TRY_ASSIGN(message.content, required(json, "content"));
  return message;
}

Result<void> read_messages(const Json& json, Draft& draft) {
  const Json& turns = json.at("messages");
  if (!turns.is_array()) {
    return make_error(Code::kInvalidInput, "\"messages\" should be an array, but is {}",
                      turns.type_name());
  }
  std::string system;
  std::string roles;
  for (const Json& turn : turns) {
    TRY_ASSIGN(Message message, read_message(turn));
    roles += (roles.empty() ? "" : " ") + message.role;
    if (message.role == "system") system = std::move(message.content) + "\n\n";
    if (message.role == "user") draft.prompt = std::move(message.content);
    if (message.role == "assistant") draft.final_answer = std::move(message.content);
  }
  if (roles != "user assistant" && roles != "system user assistant") {
    return make_error(Code::kInvalidInput,
                      "\"messages\" should be [system,] user, assistant, but are [{}]",
                      roles.substr(0, 80));
  }
  draft.prompt.insert(0, system);
  draft.form = Form::kMessages;
  return {};
}

Result<void> read_fields(const Json& json, Draft& draft) {
  TRY_ASSIGN(draft.prompt, required(json, "prompt"));
  if (json.contains("reasoning_chain")) {
    TRY_ASSIGN(draft.reasoning_chain, required(json, "reasoning_chain"));
  }
  const bool code = json.contains("final_code");
  if (code && json.contains("final_answer")) {
    return make_error(Code::kInvalidInput, "both \"final_answer\" and \"final_code\" are given");
  }
  draft.form = code ? Form::kCode : Form::kAnswer;
  TRY_ASSIGN(draft.final_answer, required(json, code ? "final_code" : "final_answer"));
  return {};
}

Result<void> read_labels(const Json& json, Draft& draft) {
  TRY_ASSIGN(draft.task, optional_label(json, "task"));
  TRY_ASSIGN(draft.teacher, optional_label(json, "teacher"));
  TRY_ASSIGN(draft.source, optional_label(json, "source"));
  TRY_ASSIGN(draft.canonical, optional_label(json, "canonical"));
  if (is_present(json, "level")) {
    TRY_ASSIGN(const int64_t level, base::get_integer(json, "level"));
    if (level < 0 || level > 1000) {
      return make_error(Code::kInvalidInput, "\"level\" should be 0 to 1000, but is {}", level);
    }
    draft.level = static_cast<int>(level);
  }
  return {};
}

Result<Verdict> read_verdict(const Json& json) {
  Verdict verdict;
  TRY_ASSIGN(verdict.verifier, required(json, "verifier"));
  TRY_ASSIGN(verdict.reason, optional_label(json, "reason"));
  if (!json.contains("passed") || !json.at("passed").is_boolean()) {
    return make_error(Code::kInvalidInput, "\"passed\" should be true or false");
  }
  verdict.passed = json.at("passed").get<bool>();
  return verdict;
}

/// A record with a failed verdict is a failure, not an example.
Result<std::vector<Verdict>> read_verdicts(const Json& json) {
  std::vector<Verdict> verdicts;
  if (!is_present(json, "verdicts")) return verdicts;
  if (!json.at("verdicts").is_array()) {
    return make_error(Code::kInvalidInput, "\"verdicts\" should be an array");
  }
  for (const Json& item : json.at("verdicts")) {
    auto verdict = read_verdict(item);
    if (!verdict) return base::in_context("\"verdicts\"", std::move(verdict).error());
    if (!verdict->passed) {
      return make_error(Code::kInvalidInput, "verifier \"{}\" did not pass it: {}",
                        verdict->verifier, verdict->reason);
    }
    verdicts.push_back(*std::move(verdict));
  }
  return verdicts;
}

Result<Standing> read_standing(const Json& json) {
  if (!is_present(json, "standing")) return Standing::kDeclared;
  TRY_ASSIGN(const std::string name, base::get_string(json, "standing"));
  for (const Standing standing : kStandings) {
    if (name == to_string(standing)) return standing;
  }
  return make_error(Code::kInvalidInput,
                    "\"standing\" should be verified, agreed or declared, but is \"{}\"",
                    name.substr(0, 40));
}

Json answer_to_json(const Draft& draft) {
  Json json;
  if (draft.form == Form::kMessages) {
    json["messages"] = Json::array({{{"role", "user"}, {"content", draft.prompt}},
                                    {{"role", "assistant"}, {"content", draft.final_answer}}});
    return json;
  }
  json["prompt"] = draft.prompt;
  if (!draft.reasoning_chain.empty()) json["reasoning_chain"] = draft.reasoning_chain;
  json[draft.form == Form::kCode ? "final_code" : "final_answer"] = draft.final_answer;
  return json;
}

Json verdicts_to_json(const std::vector<Verdict>& verdicts) {
  Json array = Json::array();
  for (const Verdict& verdict : verdicts) {
    Json item = {{"verifier", verdict.verifier}, {"passed", verdict.passed}};
    if (!verdict.reason.empty()) item["reason"] = verdict.reason;
    array.push_back(std::move(item));
  }
  return array;
}

}  // namespace

std::string_view to_string(Standing standing) {
  switch (standing) {
    case Standing::kVerified:
      return "verified";
    case Standing::kAgreed:
      return "agreed";
    case Standing::kDeclared:
      return "declared";
  }
  return "declared";
}

std::string Draft::completion() const {
  if (form == Form::kMessages) return final_answer;
  const std::string_view gap = reasoning_chain.empty() ? "" : "\n";
  return fmt::format("{}{}Answer: {}", reasoning_chain, gap, final_answer);
}

std::string Draft::group() const { return canonical.empty() ? fold(prompt) : canonical; }

std::string Record::id() const {
  const std::string written = completion();
  base::Hasher hasher;
  hasher.add_value(uint64_t{draft.prompt.size()}).add(draft.prompt).add(written);
  return hasher.finish().hex().substr(0, 32);
}

Result<Record> record_from_json(const Json& json) {
  if (!json.is_object()) {
    return make_error(Code::kInvalidInput, "expected a JSON object, found {}", json.type_name());
  }
  Record record;
  if (json.contains("messages")) {
    if (json.contains("prompt")) {
      return make_error(Code::kInvalidInput, "both \"messages\" and \"prompt\" are given");
    }
    TRY(read_messages(json, record.draft));
  } else {
    TRY(read_fields(json, record.draft));
  }
  TRY(read_labels(json, record.draft));
  TRY_ASSIGN(record.verdicts, read_verdicts(json));
  TRY_ASSIGN(record.standing, read_standing(json));
  if (record.verdicts.empty()) record.standing = Standing::kDeclared;
  return record;
}

Json to_json(const Record& record) {
  const Draft& draft = record.draft;
  Json json = {{"id", record.id()}};
  if (!draft.task.empty()) json["task"] = draft.task;
  json.update(answer_to_json(draft));
  json["standing"] = to_string(record.standing);
  if (!record.verdicts.empty()) json["verdicts"] = verdicts_to_json(record.verdicts);
  if (!draft.teacher.empty()) json["teacher"] = draft.teacher;
  if (!draft.source.empty()) json["source"] = draft.source;
  if (!draft.canonical.empty()) json["canonical"] = draft.canonical;
  if (draft.level >= 0) json["level"] = draft.level;
  return json;
}

}  // namespace retort::record
