// Every limit of the program in one place, with the assertions that relate them.
#pragma once

#include <cstdint>

namespace retort::limits {

// Threads and batches.
inline constexpr int kThreadsMax = 256;
inline constexpr int kStepRowsMax = 512;      // token rows in one engine step
inline constexpr int kSessionsMax = 256;      // sequences in one batcher
inline constexpr int kPrefillChunkRows = 256; // rows of one prompt in one step

// Model files.
inline constexpr int64_t kGgufTensorsMax = 100'000;
inline constexpr int64_t kGgufKeysMax = 100'000;
inline constexpr int64_t kGgufStringBytesMax = int64_t{64} << 20;
inline constexpr int64_t kGgufArrayLengthMax = int64_t{16} << 20;
inline constexpr int kLayersMax = 512;
inline constexpr int kHeadsMax = 1024;
inline constexpr int kHeadDimMax = 512;
inline constexpr int64_t kEmbeddingMax = 65'536;
inline constexpr int64_t kFeedForwardMax = 1 << 20;
inline constexpr int64_t kVocabularyMax = 4 << 20;
inline constexpr int64_t kContextMax = 4 << 20;

// Adapters.
inline constexpr int kMixTermsMax = 8;
inline constexpr int kRankMax = 512;
inline constexpr int64_t kArenaBytesDefault = int64_t{256} << 20;
inline constexpr int kArenaSlotsMax = 1024;

// Records.
inline constexpr int64_t kRecordLineBytesMax = int64_t{4} << 20;
inline constexpr int64_t kRecordTokensMaxDefault = 1024;

static_assert(kPrefillChunkRows <= kStepRowsMax, "a prefill chunk has to fit in a step");
static_assert(kSessionsMax <= kStepRowsMax, "every session has to be able to decode in one step");
static_assert(kRecordTokensMaxDefault <= kContextMax);

}  // namespace retort::limits
