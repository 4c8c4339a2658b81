#include "train/example.h"

#include <algorithm>

namespace retort::train {

base::Result<Example> make_example(const record::Record& record,
                                   const engine::Vocabulary& vocabulary, int64_t tokens_max) {
  const std::vector<engine::Message> messages = {{"user", record.draft.prompt},
                                                 {"assistant", record.completion()}};
  TRY_ASSIGN(engine::EncodedChat chat, vocabulary.encode_chat(messages, false));
  Example example{std::move(chat.tokens), std::move(chat.supervised), 0};
  while (!example.supervised.empty() && example.supervised.back() == 0) {
    example.supervised.pop_back();
    example.tokens.pop_back();
  }
  if (!example.supervised.empty()) example.supervised.front() = 0;  // nothing predicts the first
  example.targets = std::ranges::count(example.supervised, uint8_t{1});
  if (example.targets == 0) {
    return base::make_error(base::Code::kInvalidInput, "record {}: no token to learn", record.id());
  }
  const auto length = static_cast<int64_t>(example.tokens.size());
  if (length > tokens_max) {
    return base::make_error(base::Code::kLimit, "record {}: {} tokens, more than the limit of {}",
                            record.id(), length, tokens_max);
  }
  return example;
}

base::Result<ExampleSet> make_examples(std::span<const record::Record> records,
                                       const engine::Vocabulary& vocabulary, int64_t tokens_max) {
  ExampleSet set;
  for (const record::Record& record : records) {
    if (auto example = make_example(record, vocabulary, tokens_max)) {
      set.examples.push_back(*std::move(example));
    } else {
      set.refused.push_back(example.error().message);
    }
  }
  if (set.examples.empty()) {
    return base::make_error(base::Code::kInvalidInput, "no record is left to train on{}",
                            set.refused.empty() ? "" : ": " + set.refused.front());
  }
  return set;
}

}  // namespace retort::train
