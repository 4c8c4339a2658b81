// Frozen matrices as the kernels read them. Immutable after packing; shared by all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"

namespace retort::kernels {

/// 64-byte aligned storage, not initialised.
template <class T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(size_t n)
      : data_(static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{64}))), size_(n) {}
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<T[], Free> data_;
  size_t size_ = 0;
};

/// A matrix W (out x in), out = rows of the GGUF tensor, packed for linear(). `in` must be a
/// multiple of 32 for quantised types and of 8 otherwise; out is free.
class Weight {
 public:
  Weight();
  ~Weight();
  Weight(Weight&&) noexcept;
  Weight& operator=(Weight&&) noexcept;

  /// `ggml_type` is the GGUF tensor type; `data` holds out rows of ggml_row_size(type, in) bytes.
  /// Errors: kUnsupported for a type that has no kernel.
  [[nodiscard]] static base::Result<Weight> pack(int ggml_type, std::span<const std::byte> data,
                                                 int64_t out, int64_t in);
  /// What pack() of such a tensor would take in memory, with the same errors but for `data`.
  [[nodiscard]] static base::Result<size_t> packed_bytes(int ggml_type, int64_t out, int64_t in);
  int64_t out() const;
  int64_t in() const;
  size_t bytes() const;
  /// True if linear() reads Activations::q rather than x.
  bool quantized() const;
  /// Row `row` as floats, exactly as the kernels see it (for embeddings, norms and the backward
  /// copy).
  void dequantize_row(int64_t row, float* dst) const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// W dequantised and transposed into panels for linear_input_gradient: [panels_of(in)][out][16].
/// Whole, or a window: a few panels at a time, of one matrix after the other. The values are the
/// same.
class TransposedWeight {
 public:
  TransposedWeight() = default;
  /// The whole of w. Allocates; fill with fill_panels (each thread a range).
  explicit TransposedWeight(const Weight& w);
  void fill_panels(const Weight& w, int64_t panel_begin, int64_t panel_end);
  /// A window of `floats` values, for panels of 16 * out floats each.
  static TransposedWeight window(int64_t floats);
  /// Of a window: from now on it holds panels [panel_begin, panel_end) of w, and no others.
  void show(const Weight& w, int64_t panel_begin, int64_t panel_end);
  int64_t out() const { return out_; }
  int64_t in() const { return in_; }
  size_t bytes() const { return values_.size() * sizeof(float); }
  const float* panel(int64_t p) const { return values_.data() + (p - first_) * out_ * 16; }

 private:
  int64_t out_ = 0, in_ = 0, first_ = 0;
  AlignedArray<float> values_;
};

}  // namespace retort::kernels
