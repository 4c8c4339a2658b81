#include "loop/baseline.h"

#include "base/hash.h"

namespace retort::loop {
namespace {

using base::Json;

/// Raised when the engine's base logits change: then old answers are no longer its answers.
constexpr int kEngineGeneration = 1;

std::string key_of(const engine::Model& model, std::span<const record::Draft> problems,
                   const EvaluationOptions& options) {
  base::Hasher hasher;
  const auto add = [&](std::string_view text) { hasher.add_value(text.size()).add(text); };
  hasher.add_value(kEngineGeneration);
  hasher.add_value(model.fingerprint().bytes).add_value(options.max_tokens);
  hasher.add_value(options.shots.size());
  for (const record::Record& shot : options.shots) {
    add(shot.draft.prompt);
    add(shot.completion());
  }
  for (const record::Draft& problem : problems) add(problem.prompt);
  return hasher.finish().short_hex();
}

Json to_json(const Evaluation& evaluation) {
  Json answers = Json::array();
  for (const Answer& answer : evaluation.answers) {
    answers.push_back({{"text", answer.text},
                       {"tokens", answer.tokens},
                       {"ended", answer.finish == engine::Finish::kEndOfTurn}});
  }
  return {{"seconds", evaluation.seconds}, {"answers", std::move(answers)}};
}

base::Result<Evaluation> read(const base::Path& path, size_t problems) {
  TRY_ASSIGN(const std::string text, base::read_file(path));
  TRY_ASSIGN(const Json json, base::parse_json(text));
  Evaluation evaluation;
  TRY_ASSIGN(evaluation.seconds, base::get_number(json, "seconds"));
  const auto answers = json.find("answers");
  if (answers == json.end() || !answers->is_array() || answers->size() != problems) {
    return base::make_error(base::Code::kInvalidInput, "{}: not {} answers", path.string(),
                            problems);
  }
  for (const Json& item : *answers) {
    Answer answer;
    TRY_ASSIGN(answer.text, base::get_string(item, "text"));
    TRY_ASSIGN(answer.tokens, base::get_integer(item, "tokens"));
    const bool ended = item.contains("ended") && item["ended"] == true;
    answer.finish = ended ? engine::Finish::kEndOfTurn : engine::Finish::kLength;
    evaluation.answers.push_back(std::move(answer));
  }
  return evaluation;
}

}  // namespace

base::Result<Evaluation> base_answers(const base::Path& directory, const engine::Model& model,
                                      std::span<const record::Draft> problems, const Judge& judge,
                                      const EvaluationOptions& options,
                                      const std::function<base::Result<Evaluation>()>& measure) {
  const base::Path path = directory / (key_of(model, problems, options) + ".json");
  if (auto kept = read(path, problems.size())) {
    for (size_t i = 0; i < problems.size(); ++i) {
      kept->answers[i].correct = judge(problems[i], kept->answers[i].text);
    }
    return kept;
  }
  TRY_ASSIGN(Evaluation evaluation, measure());
  TRY(base::create_directories(directory));
  TRY(base::write_file_atomic(path, base::dump_json(to_json(evaluation))));
  return evaluation;
}

}  // namespace retort::loop
