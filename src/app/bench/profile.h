// Where the time of one decoded token goes.
#pragma once

#include <string_view>

#include "app/bench/bench.h"
#include "base/team.h"
#include "engine/model.h"

namespace retort::app {

/// Adds rows profile_{attention_matrices,feed_forward_matrices,output_matrix,attention}_ms.M: each
/// part of a token after 512 run by itself over the real weights, all lanes, and
/// profile_matrices_gb_per_s.M. What a token takes beyond their sum is norms, rotations, copies and
/// barriers.
void profile_decode(const engine::Model& model, base::Team& team, std::string_view name,
                    BenchReport& report);

}  // namespace retort::app
