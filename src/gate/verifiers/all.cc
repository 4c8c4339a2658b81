#include "gate/verifier.h"

namespace retort::gate {

Verifiers all_verifiers(std::span<const symbolic::Family* const> families, AnswerKey key) {
  Verifiers all;
  all.push_back(make_answer_verifier(std::move(key)));
  all.push_back(make_symbolic_verifier(families));
  return all;
}

}  // namespace retort::gate
