// A team of threads that run one function in lockstep (SPMD): each lane executes the same code on
// its share of the work and meets the others at barriers. One wake-up a call, not one an operator.
//
// Owner: one object, used by one calling thread at a time; that thread is lane 0. Waiting spins for
// a bounded time and then sleeps, so an idle team costs nothing and a busy one no system call.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace retort::base {

class Team;

/// One lane's view inside Team::run.
class Lane {
 public:
  int index() const { return index_; }
  int count() const;
  /// Returns when every lane has called it; what they wrote before is visible after.
  void barrier() const;
  /// This lane's contiguous share [first, second) of [0, n), in multiples of `grain`.
  std::pair<int64_t, int64_t> share(int64_t n, int64_t grain = 1) const;

 private:
  friend class Team;
  Lane(Team& team, int index) : team_(&team), index_(index) {}
  Team* team_;
  int index_;
};

class Team {
 public:
  /// `threads` lanes in all, the caller included; 1 <= threads <= limits::kThreadsMax.
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }

  /// Runs body(lane) on every lane and returns when all have finished. `body` must not throw and
  /// does not allocate here: it is passed by reference.
  template <class Body>
  void run(const Body& body) {
    run_erased([](const void* b, Lane lane) { (*static_cast<const Body*>(b))(lane); }, &body);
  }

  /// The number of CPUs this process may use.
  static int default_threads();

 private:
  friend class Lane;
  using Function = void (*)(const void*, Lane);
  void run_erased(Function function, const void* body);
  void work(int index);
  void barrier();

  const int size_;
  Function function_ = nullptr;
  const void* body_ = nullptr;
  alignas(64) std::atomic<uint32_t> call_{0};  // bumped to start a run
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

inline int Lane::count() const { return team_->size(); }
inline void Lane::barrier() const { team_->barrier(); }

}  // namespace retort::base
