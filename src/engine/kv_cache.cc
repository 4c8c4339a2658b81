#include "engine/kv_cache.h"

#include <algorithm>

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
  cache.cells_ = kernels::AlignedArray<kernels::Half>(static_cast<size_t>(bytes(config, capacity)) /
                                                      sizeof(kernels::Half));
  return cache;
}

void KvCache::truncate(int64_t length) {
  CHECK(length >= 0 && length <= length_, "length={} of {}", length, length_);
  length_ = length;
}

base::Result<void> KvCache::copy_from(const KvCache& prefix) {
  if (prefix.length_ > capacity_) {
    return base::make_error(base::Code::kLimit,
                            "a prefix of {} tokens does not fit a context of {}", prefix.length_,
                            capacity_);
  }
  CHECK(kv_heads_ == prefix.kv_heads_ && head_dim_ == prefix.head_dim_);
  const int64_t heads = static_cast<int64_t>(prefix.cells_.size()) / (prefix.capacity_ * head_dim_);
  for (int64_t head = 0; head < heads; ++head) {
    std::copy_n(prefix.cells_.data() + head * prefix.capacity_ * head_dim_,
                prefix.length_ * head_dim_, cells_.data() + head * capacity_ * head_dim_);
  }
  length_ = prefix.length_;
  return {};
}

void KvCache::advance(int64_t rows) {
  CHECK(length_ + rows <= capacity_, "length={} rows={} capacity={}", length_, rows, capacity_);
  length_ += rows;
}

}  // namespace retort::engine
