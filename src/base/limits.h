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
inline constexpr int64_t kRecordFileBytesMax = int64_t{2} << 30;
inline constexpr int64_t kRecordRefusalsKept = 10'000;      // of one file; the rest are only counted
inline constexpr int64_t kDraftBytesMaxDefault = 64 << 10;  // prompt and completion
inline constexpr int64_t kTeacherStaleAsksMax = 2'000;      // asks in a row that gave nothing new

static_assert(kPrefillChunkRows <= kStepRowsMax, "a prefill chunk has to fit in a step");
static_assert(kSessionsMax <= kStepRowsMax, "every session has to be able to decode in one step");
static_assert(kRecordTokensMaxDefault <= kContextMax);
static_assert(8 * kDraftBytesMaxDefault <= kRecordLineBytesMax,
              "what the gate admits has to fit in a line, each byte escaped as \\u00xx");
static_assert(kRecordLineBytesMax <= kRecordFileBytesMax);

}  // namespace retort::limits
