// Compiled once for each instruction set (CMakeLists.txt gives RETORT_ISA and the flags).
// Everything but the table has internal linkage: an inline function shared with other objects could
// be the one the linker keeps, and fault on an older processor. For the same reason no std:: calls
// in impl/.
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/dispatch.h"
#include "kernels/half.h"
#include "kernels/kernels.h"
#include "kernels/packed.h"

namespace retort::kernels::RETORT_ISA {
namespace {

#if defined(__AVX512BW__)
#include "kernels/impl/simd_avx512.h"
#elif defined(__AVX2__)
#include "kernels/impl/simd_avx2.h"
#else
#include "kernels/impl/simd_portable.h"
#endif

// clang-format off
#include "kernels/impl/common.inc.h"
#include "kernels/impl/linear.inc.h"
#include "kernels/impl/gradient.inc.h"
#include "kernels/impl/attention.inc.h"
#include "kernels/impl/elementwise.inc.h"
// clang-format on

#define RETORT_TEXT_INNER(x) #x
#define RETORT_TEXT(x) RETORT_TEXT_INNER(x)

}  // namespace

extern const Table table;
constexpr Table table = {
    .name = RETORT_TEXT(RETORT_ISA),
    .to_half = to_half,
    .to_float = half_to_float,
    .quantize_rows = quantize_rows,
    .adapter_down = adapter_down,
    .adapter_up = adapter_up,
    .linear = linear,
    .panel_product = panel_product,
    .rms_norm = rms_norm,
    .rope = rope,
    .silu_mul = silu_mul,
    .add = add_rows,
    .attend = attend,
    .linear_input_gradient = linear_input_gradient,
    .accumulate_outer = accumulate_outer,
    .accumulate_product = accumulate_product,
    .rms_norm_gradient = rms_norm_gradient,
    .silu_mul_gradient = silu_mul_gradient,
    .attend_gradient = attend_gradient,
    .cross_entropy_gradient = cross_entropy_gradient,
    .cross_entropy = cross_entropy,
    .adamw = adamw,
    .sum_of_squares = sum_of_squares,
};

}  // namespace retort::kernels::RETORT_ISA
