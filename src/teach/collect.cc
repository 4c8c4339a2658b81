#include "teach/collect.h"

#include "base/limits.h"

namespace retort::teach {
namespace {

using base::Code;
using base::make_error;
using base::Result;

/// One call of collect().
class Collection {
 public:
  Collection(Teacher& teacher, gate::Gate& gate, record::TwinSet& exclude,
             const CollectOptions& options)
      : teacher_(teacher), gate_(gate), exclude_(exclude), options_(options) {
    budget_ = options.budget;
    collected_.next_index = options.first_index;
  }

  Result<Collected> run() {
    while (made() < options_.n) {
      if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed)) {
        return make_error(Code::kCancelled, "{}: stopped after {} of {} records", teacher_.name(),
                          made(), options_.n);
      }
      if (stale_ >= limits::kTeacherStaleAsksMax) return exhausted();
      TRY(step());
      if (options_.progress != nullptr) options_.progress->tick(made());
    }
    return std::move(collected_);
  }

 private:
  int64_t made() const { return std::ssize(collected_.records); }

  /// One ask; keeps what is new and passes.
  Result<void> step() {
    const Task task{options_.task, "", options_.seed, collected_.next_index, options_.split};
    TRY_ASSIGN(record::Draft draft, teacher_.ask(task, budget_));
    ++collected_.next_index;
    ++collected_.asked;
    ++stale_;
    if (exclude_.contains(draft)) {
      ++collected_.twins;
      return {};
    }
    gate::Outcome outcome = gate_.judge(std::move(draft));
    if (auto* refusal = std::get_if<gate::Refusal>(&outcome)) {
      ++collected_.refused;
      last_refusal_ = std::move(refusal->reason);
      return {};
    }
    return keep(std::get<record::Record>(std::move(outcome)));
  }

  Result<void> keep(record::Record record) {
    if (options_.log != nullptr) TRY(options_.log->append(record));
    exclude_.add(record.draft);
    collected_.records.push_back(std::move(record));
    stale_ = 0;
    return {};
  }

  tl::unexpected<base::Error> exhausted() const {
    const std::string why = last_refusal_.empty()
                                ? fmt::format("{} were known already", collected_.twins)
                                : fmt::format("{} were known already, {} refused, the last for: {}",
                                              collected_.twins, collected_.refused, last_refusal_);
    return make_error(Code::kLimit,
                      "{} ({}): {} distinct records of the {} wanted after {} asks; {}; ask for "
                      "fewer or choose another task",
                      teacher_.name(), to_string(options_.split), made(), options_.n,
                      collected_.asked, why);
  }

  Teacher& teacher_;
  gate::Gate& gate_;
  record::TwinSet& exclude_;
  const CollectOptions& options_;
  Budget budget_;
  Collected collected_;
  std::string last_refusal_;
  int64_t stale_ = 0;  // asks since the last record
};

}  // namespace

Result<Collected> collect(Teacher& teacher, gate::Gate& gate, record::TwinSet& exclude,
                          const CollectOptions& options) {
  Result<Collected> collected = Collection(teacher, gate, exclude, options).run();
  if (options.log != nullptr) {
    const auto synced = options.log->sync();
    if (collected && !synced) return tl::unexpected(synced.error());
  }
  return collected;
}

}  // namespace retort::teach
