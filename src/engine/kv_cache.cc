#include "engine/kv_cache.h"

#include "base/check.h"
#include "base/limits.h"

namespace retort::engine {

int64_t KvCache::bytes(const Config& config, int64_t capacity) {
  return 2 * int64_t{config.layers} * config.kv_dim() * capacity *
         static_cast<int64_t>(sizeof(kernels::Half));
}

base::Result<KvCache> KvCache::create(const Config& config, int64_t capacity) {
  if (capacity <= 0 || capacity > limits::kContextMax) {
    return base::make_error(base::Code::kLimit, "a context of {} tokens is outside 1..{}", capacity,
                            limits::kContextMax);
  }
  KvCache cache;
  cache.capacity_ = capacity;
  cache.kv_heads_ = config.kv_heads;
  cache.head_dim_ = config.head_dim;
  cache.cells_ = kernels::AlignedArray<kernels::Half>(
      static_cast<size_t>(bytes(config, capacity)) / sizeof(kernels::Half));
  return cache;
}

void KvCache::truncate(int64_t length) {
  CHECK(length >= 0 && length <= length_, "length={} of {}", length, length_);
  length_ = length;
}

void KvCache::advance(int64_t rows) {
  CHECK(length_ + rows <= capacity_, "length={} rows={} capacity={}", length_, rows, capacity_);
  length_ += rows;
}

}  // namespace retort::engine
