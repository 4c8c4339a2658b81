// Every limit of the program in one place, with the assertions that relate them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace retort::limits {

// Threads and batches.
inline constexpr int kThreadsMax = 256;
inline constexpr int kStepRowsMax = 512;       // token rows in one engine step
inline constexpr int kSessionsMax = 256;       // sequences in one batcher
inline constexpr int kPrefillChunkRows = 256;  // rows of one prompt in one step

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
inline constexpr size_t kAdapterNameBytesMax = 64;
inline constexpr int kRegistryBusyMs = 5000;  // then "in use" is an error
inline constexpr int64_t kSafetensorsHeaderBytesMax = int64_t{64} << 20;
inline constexpr int64_t kSafetensorsTensorsMax = 100'000;
inline constexpr size_t kPatternsMax = 10'000;   // rank_pattern, alpha_pattern
inline constexpr size_t kPatternBytesMax = 256;  // of one regular expression
inline constexpr int64_t kAdapterConfigBytesMax = int64_t{16} << 20;

// Records.
inline constexpr int64_t kRecordLineBytesMax = int64_t{4} << 20;
inline constexpr int64_t kRecordTokensMaxDefault = 1024;
inline constexpr int64_t kRecordFileBytesMax = int64_t{2} << 30;
inline constexpr int64_t kRecordRefusalsKept = 10'000;  // of one file; the rest are only counted
inline constexpr int64_t kDraftBytesMaxDefault = 64 << 10;  // prompt and completion
inline constexpr int64_t kTeacherStaleAsksMax = 2'000;      // asks in a row that gave nothing new

static_assert(kPrefillChunkRows <= kStepRowsMax, "a prefill chunk has to fit in a step");
static_assert(kSessionsMax <= kStepRowsMax, "every session has to be able to decode in one step");
static_assert(kRecordTokensMaxDefault <= kContextMax);
static_assert(8 * kDraftBytesMaxDefault <= kRecordLineBytesMax,
              "what the gate admits has to fit in a line, each byte escaped as \\u00xx");
static_assert(kRecordLineBytesMax <= kRecordFileBytesMax);
static_assert(kSafetensorsTensorsMax >= kLayersMax * 7 * 3, "A, B, m of every module of a model");

}  // namespace retort::limits
