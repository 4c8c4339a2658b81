// Decides whether a model's free text solves a problem: the family's own checker where the problem
// names one, else the verifiers of the gate against the reference answer.
#pragma once

#include "loop/evaluate.h"

namespace retort::loop {

Judge make_judge();

}  // namespace retort::loop
