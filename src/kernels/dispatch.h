// The tables of kernels, one per instruction set, all compiled from impl/. The best one that the
// processor runs is chosen at first use; RETORT_KERNELS=portable|avx2|avxvnni|avx512 forces
// one (an unknown or unsupported name is a CHECK failure). avx512 asks for VNNI too; processors
// with AVX-512 but no VNNI use avx2.
#pragma once

#include <span>

#include "kernels/kernels.h"

namespace retort::kernels {

struct Table {
  const char* name;
  decltype(kernels::to_half)* to_half;
  decltype(kernels::to_float)* to_float;
  decltype(kernels::quantize_rows)* quantize_rows;
  decltype(kernels::adapter_down)* adapter_down;
  decltype(kernels::adapter_up)* adapter_up;
  decltype(kernels::linear)* linear;
  decltype(kernels::panel_product)* panel_product;
  decltype(kernels::rms_norm)* rms_norm;
  decltype(kernels::rope)* rope;
  decltype(kernels::silu_mul)* silu_mul;
  decltype(kernels::add)* add;
  decltype(kernels::attend)* attend;
  decltype(kernels::linear_input_gradient)* linear_input_gradient;
  decltype(kernels::accumulate_outer)* accumulate_outer;
  decltype(kernels::accumulate_product)* accumulate_product;
  decltype(kernels::rms_norm_gradient)* rms_norm_gradient;
  decltype(kernels::silu_mul_gradient)* silu_mul_gradient;
  decltype(kernels::attend_gradient)* attend_gradient;
  decltype(kernels::cross_entropy_gradient)* cross_entropy_gradient;
  decltype(kernels::cross_entropy)* cross_entropy;
  decltype(kernels::adamw)* adamw;
  decltype(kernels::sum_of_squares)* sum_of_squares;
};

/// The table in use; Table::name says which.
const Table& active();

/// All tables that this processor can run, best first; for tests and benchmarks.
std::span<const Table* const> available();

}  // namespace retort::kernels
