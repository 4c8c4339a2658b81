// Crystallising: an adapter (A, B, m) folded against one base into a slot.
//
// The trainer keeps one Crystalliser and folds into the same memory every step; the server makes
// one per adapter. Same code, same bits: a published slot is what the last training step multiplied
// by.
#pragma once

#include <span>
#include <vector>

#include "adapter/fold.h"
#include "adapter/slot.h"
#include "adapter/weights.h"
#include "base/team.h"

namespace retort::adapter {

/// The base's matrices by engine::matrix_index. A view: the model outlives it.
struct BaseWeights {
  SlotBase shape;
  std::vector<const kernels::Weight*> matrices;

  static BaseWeights of(const engine::Model& model);
};

/// Order, shapes, ranks, sizes and finiteness of an adapter against a base's shapes.
[[nodiscard]] base::Result<void> check_weights(const AdapterWeights& adapter, const SlotBase& base);

class Crystalliser {
 public:
  /// Memory for adapters of `adapter`'s modules, ranks and kind (values are not kept), folded by
  /// teams of at most `lanes`. The base's matrices have to outlive it.
  [[nodiscard]] static base::Result<Crystalliser> create(const AdapterWeights& adapter,
                                                         const BaseWeights& base, int lanes);

  /// On every lane of a team: caches ||w_i||^2 of the DoRA modules, so that fold() need not measure
  /// them again. Optional; the bits are the same. Barrier before the first fold().
  void measure(const base::Lane& lane);
  /// On every lane of a team: folds `adapter`, of the shapes given to create(). No allocation; one
  /// barrier inside, none at the end: the caller needs one before view() is read.
  void fold(const base::Lane& lane, const AdapterWeights& adapter);

  /// The serving form; stable memory. Its content hash is that of the last seal().
  const engine::SlotView& view() const { return view_; }
  /// Of module i of the adapter, [out]: c, and the row norm of W0 + s B A (dm = dc / norm).
  std::span<const float> c(int module) const;
  std::span<const float> norm(int module) const;
  /// ||w_i||^2 of module i's base, [out]; after measure().
  std::span<const double> base_norms_squared(int module) const;

  /// The slot's bytes, with hashes. Error: a value that binary16 cannot hold, or that is not
  /// finite.
  [[nodiscard]] base::Result<std::span<const std::byte>> seal();

 private:
  struct Module {
    int index = 0;  // engine::matrix_index
    const kernels::Weight* weight = nullptr;
    int64_t out = 0, in = 0, rank = 0;
    bool dora = false;
    FoldOutput output;
    float* gram = nullptr;
    double* norms_squared = nullptr;
  };
  void place_modules(const AdapterWeights& adapter, const BaseWeights& base,
                     const SlotLayout& layout);
  FoldInput input(const Module& module, const ModuleWeights& weights) const;
  float* scratch(const base::Lane& lane);

  SlotBase base_;
  kernels::AlignedArray<std::byte> bytes_;
  std::vector<kernels::AdapterMatrix> matrices_;
  engine::SlotView view_;
  std::vector<Module> modules_;
  kernels::AlignedArray<float> floats_;  // c and norm of all modules, grams, scratch of all lanes
  kernels::AlignedArray<double> norms_squared_;
  float* scratch_ = nullptr;
  int64_t scratch_floats_ = 0;
  int lanes_ = 0;
  bool measured_ = false;
};

/// The slot of one adapter on one base, sealed.
[[nodiscard]] base::Result<kernels::AlignedArray<std::byte>> build_slot(
    const AdapterWeights& adapter, const BaseWeights& base, base::Team& team);

/// m = ||W0||_row for every module: with B = 0 the adapter changes nothing, exactly (c = 1).
void set_initial_magnitudes(AdapterWeights& adapter, const BaseWeights& base, base::Team& team);

}  // namespace retort::adapter
