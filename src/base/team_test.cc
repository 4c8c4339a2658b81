// Oracle: arithmetic. Every element is visited once, and a barrier separates phases.
#include "base/team.h"

#include <gtest/gtest.h>

#include <numeric>

namespace retort::base {
namespace {

TEST(Team, SharesCoverTheRangeOnce) {
  for (int threads : {1, 2, 3, 5}) {
    Team team(threads);
    std::vector<int> visits(1000, 0);
    team.run([&](Lane lane) {
      const auto [first, last] = lane.share(1000, 16);
      for (int64_t i = first; i < last; ++i) ++visits[static_cast<size_t>(i)];
    });
    EXPECT_EQ(std::accumulate(visits.begin(), visits.end(), 0), 1000);
    EXPECT_EQ(*std::max_element(visits.begin(), visits.end()), 1);
  }
}

TEST(Team, BarrierSeparatesPhases) {
  constexpr int kThreads = 4;
  Team team(kThreads);
  std::vector<int> values(kThreads, 0);
  std::atomic<int> errors{0};
  for (int repeat = 0; repeat < 200; ++repeat) {
    team.run([&](Lane lane) {
      for (int phase = 1; phase <= 10; ++phase) {
        values[static_cast<size_t>(lane.index())] = phase;
        lane.barrier();
        for (int value : values) errors += value != phase;
        lane.barrier();
      }
    });
  }
  EXPECT_EQ(errors.load(), 0);
}

}  // namespace
}  // namespace retort::base
