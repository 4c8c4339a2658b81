#include "base/rng.h"
#include "teach/teacher.h"

namespace retort::teach {
namespace {

using base::Code;
using base::make_error;
using base::Result;

class SymbolicTeacher final : public Teacher {
 public:
  explicit SymbolicTeacher(const symbolic::Family& family)
      : family_(family), name_(fmt::format("symbolic:{}", family.name())) {}
  std::string_view name() const override { return name_; }

  Result<record::Draft> ask(const Task& task, Budget& budget) override {
    if (budget.calls <= 0) return make_error(Code::kLimit, "{}: no calls left", name_);
    --budget.calls;
    base::Rng rng(task.seed, stream(task));
    symbolic::Problem problem = family_.sample(rng, task.split);
    record::Draft draft;
    draft.task = family_.name();
    draft.prompt = std::move(problem.prompt);
    draft.reasoning_chain = std::move(problem.chain);
    draft.final_answer = std::move(problem.answer);
    draft.canonical = std::move(problem.canonical);
    draft.level = problem.level;
    draft.teacher = name_;
    draft.source = fmt::format("{} seed={} index={} split={}", name_, task.seed, task.index,
                               to_string(task.split));
    return draft;
  }

 private:
  /// Each split has streams of its own: with shared ones, number i of the held-out split would draw
  /// the same problem as number i of training, and be dropped as its twin.
  static uint64_t stream(const Task& task) {
    return task.index ^ static_cast<uint64_t>(task.split) << 62;
  }
  const symbolic::Family& family_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<Teacher> make_symbolic_teacher(const symbolic::Family& family) {
  return std::make_unique<SymbolicTeacher>(family);
}

std::string_view to_string(symbolic::Split split) {
  switch (split) {
    case symbolic::Split::kTrain:
      return "train";
    case symbolic::Split::kHeldOut:
      return "held-out";
    case symbolic::Split::kExtrapolation:
      return "extrapolation";
  }
  return "train";
}

}  // namespace retort::teach
