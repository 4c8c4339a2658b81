// Damaged and foreign model files. Oracle: for each, the words that its error has to hold; and that
// nothing crashes (under the sanitizers), whatever bytes are changed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/rng.h"
#include "engine/arch/arch.h"
#include "engine/random_model.h"

namespace retort::engine {
namespace {

RandomModelOptions options_of(std::string_view architecture) {
  RandomModelOptions options;
  options.config = tiny_config(architecture);
  options.config.layers = 1;
  options.rope_factors = architecture == "llama";
  return options;
}

base::Path write_temporary(std::string_view bytes) {
  const base::Path path =
      std::filesystem::temp_directory_path() / fmt::format("retort-bad-{}.gguf", getpid());
  EXPECT_TRUE(base::write_file_atomic(path, bytes));
  return path;
}

std::string error_of(std::string_view bytes) {
  const base::Path path = write_temporary(bytes);
  base::Team team(1);
  const auto model = Model::open(path, team);
  std::filesystem::remove(path);
  if (model) return "no error";
  EXPECT_NE(model.error().message.find(path.string()), std::string::npos)
      << "the message does not name the file: " << model.error().message;
  return model.error().message;
}

/// A change of the bytes of a valid llama file.
using Bytes = std::string;
using ByteDamage = void (*)(Bytes&);
/// A change of the keys and tensors of a valid file before it is written.
using Damage = void (*)(GgufWriter&);

Bytes valid_bytes() {
  static const Bytes bytes = [] {
    const auto options = options_of("llama");
    const GgufWriter model = random_model(options);
    return model.bytes(random_weights(options, model));
  }();
  return bytes;
}

template <class T>
void put(Bytes& bytes, size_t at, T value) {
  ASSERT_LE(at + sizeof value, bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// The first byte after the n-th appearance of `name` (a key or a tensor's name).
size_t after(const Bytes& bytes, std::string_view name, int n = 1) {
  size_t at = 0;
  for (int i = 0; i < n; ++i) at = bytes.find(name, at) + name.size();
  EXPECT_NE(at, Bytes::npos + name.size()) << name;
  return at;
}

constexpr size_t kTensorCount = 8, kKeyCount = 16, kFirstKey = 24;
constexpr std::string_view kNorm =
    "blk.0.attn_norm.weight";                               // 1 dimension: +4 extent, +12 type, +16
constexpr std::string_view kQuery = "blk.0.attn_q.weight";  // 2: +4, +12 extents, +20 type, +24
constexpr std::string_view kKey = "blk.0.attn_k.weight";

struct ByteCase {
  const char* name;
  ByteDamage damage;
  const char* words;
};

const ByteCase kByteCases[] = {
    {"Empty", [](Bytes& b) { b.clear(); }, "empty"},
    {"TwoBytes", [](Bytes& b) { b.resize(2); }, "not a GGUF file"},
    {"Ggml", [](Bytes& b) { b.replace(0, 4, "lmgg"); }, "before GGUF"},
    {"Ggjt", [](Bytes& b) { b.replace(0, 4, "tjgg"); }, "GGJT file"},
    {"Ggla", [](Bytes& b) { b.replace(0, 4, "algg"); }, "GGLA adapter"},
    {"ReversedMagic", [](Bytes& b) { b.replace(0, 4, "FUGG"); }, "big-endian"},
    {"BigEndian", [](Bytes& b) { put(b, 4, 0x03000000u); }, "big-endian"},
    {"Zip", [](Bytes& b) { b = "PK\x03\x04 archive"; }, "ZIP archive"},
    {"Safetensors", [](Bytes& b) { b = Bytes("\x10\0\0\0\0\0\0\0{\"a\": 1}", 16); }, "safetensors"},
    {"WebPage", [](Bytes& b) { b = "<!DOCTYPE html>"; }, "web page"},
    {"LfsPointer", [](Bytes& b) { b = "version https://git-lfs.github.com/spec/v1\n"; }, "Git LFS"},
    {"Zeros", [](Bytes& b) { b.assign(4096, '\0'); }, "unknown kind"},
    {"Version0", [](Bytes& b) { put(b, 4, 0u); }, "GGUF version 0"},
    {"Version1", [](Bytes& b) { put(b, 4, 1u); }, "GGUF version 1"},
    {"Version4", [](Bytes& b) { put(b, 4, 4u); }, "GGUF version 4"},
    {"CutInVersion", [](Bytes& b) { b.resize(6); }, "byte 4: the version"},
    {"CutInCounts", [](Bytes& b) { b.resize(20); }, "the number of tensors"},
    {"ManyTensors", [](Bytes& b) { put(b, kTensorCount, uint64_t{1} << 60); }, "number of tensors"},
    {"TensorsPastEnd", [](Bytes& b) { put(b, kTensorCount, uint64_t{90'000}); }, "truncated"},
    {"ManyKeys", [](Bytes& b) { put(b, kKeyCount, ~uint64_t{0}); }, "number of keys"},
    {"OneKeyMore", [](Bytes& b) { put(b, kKeyCount, uint64_t(b[kKeyCount]) + 1); }, "byte "},
    {"OneKeyLess", [](Bytes& b) { put(b, kKeyCount, uint64_t(b[kKeyCount]) - 1); }, "byte "},
    {"LongKey", [](Bytes& b) { put(b, kFirstKey, uint64_t{1} << 63); }, "at most 65536"},
    {"KeyPastEnd",
     [](Bytes& b) {
       b.resize(40);
       put(b, kTensorCount, uint64_t{0});
       put(b, kKeyCount, uint64_t{1});
     },
     "truncated"},
    {"EmptyKey", [](Bytes& b) { put(b, kFirstKey, uint64_t{0}); }, "a key is empty"},
    {"KeyNotUtf8", [](Bytes& b) { b[kFirstKey + 8] = '\xff'; }, "not UTF-8"},
    {"KeyWithNul", [](Bytes& b) { b[kFirstKey + 8] = '\0'; }, "not UTF-8"},
    {"UnknownType", [](Bytes& b) { put(b, after(b, "general.name"), 99u); }, "unknown type 99"},
    {"UnknownElement", [](Bytes& b) { put(b, after(b, "ggml.tokens") + 4, 13u); },
     "unknown type 13"},
    {"ArrayOfArrays", [](Bytes& b) { put(b, after(b, "ggml.tokens") + 4, 9u); }, "array of arrays"},
    {"HugeArray", [](Bytes& b) { put(b, after(b, "ggml.tokens") + 8, uint64_t{1} << 62); },
     "at most"},
    {"ArrayPastEnd", [](Bytes& b) { put(b, after(b, "ggml.tokens") + 8, uint64_t{9'000'000}); },
     "'tokenizer.ggml.tokens' (an array"},
    {"LongString", [](Bytes& b) { put(b, after(b, "general.name") + 4, uint64_t{1} << 40); },
     "general.name has 1099511627776 bytes"},
    {"StringPastEnd", [](Bytes& b) { put(b, after(b, "general.name") + 4, uint64_t{1} << 25); },
     "general.name needs"},
    {"BooleanSeven", [](Bytes& b) { b[after(b, "add_bos_token") + 4] = 7; },
     "boolean with the value 7"},
    {"CutInTokens", [](Bytes& b) { b.resize(after(b, "ggml.tokens") + 1000); }, "truncated"},
    {"CutInTensors", [](Bytes& b) { b.resize(after(b, kQuery) + 10); }, "truncated"},
    {"CutInData", [](Bytes& b) { b.resize(b.size() - 100); }, "truncated"},
    {"NoData", [](Bytes& b) { b.resize(b.find(kNorm) + 200); }, "truncated"},
    {"NoDimensions", [](Bytes& b) { put(b, after(b, kNorm), 0u); }, "0 dimensions"},
    {"FiveDimensions", [](Bytes& b) { put(b, after(b, kNorm), 5u); }, "5 dimensions"},
    {"ZeroExtent", [](Bytes& b) { put(b, after(b, kNorm) + 4, int64_t{0}); }, "extent 0"},
    {"NegativeExtent", [](Bytes& b) { put(b, after(b, kNorm) + 4, int64_t{-64}); }, "extent -64"},
    {"HugeExtent", [](Bytes& b) { put(b, after(b, kNorm) + 4, int64_t{1} << 62); },
     "impossible size"},
    {"HugeProduct", [](Bytes& b) { put(b, after(b, kQuery) + 12, int64_t{1} << 61); },
     "impossible size"},
    {"LargeTensor", [](Bytes& b) { put(b, after(b, kQuery) + 12, int64_t{1} << 30); }, "truncated"},
    {"PartialBlock", [](Bytes& b) { put(b, after(b, kQuery) + 4, int64_t{65}); },
     "not a multiple of its block, 32"},
    {"TensorType200", [](Bytes& b) { put(b, after(b, kNorm) + 12, 200u); }, "unknown type 200"},
    {"RemovedTensorType", [](Bytes& b) { put(b, after(b, kNorm) + 12, 4u); }, "unknown type 4"},
    {"MisalignedOffset", [](Bytes& b) { put(b, after(b, kNorm) + 16, uint64_t{33}); },
     "multiple of the alignment, 32"},
    {"OffsetPastEnd", [](Bytes& b) { put(b, after(b, kNorm) + 16, uint64_t{1} << 40); },
     "truncated"},
    {"OffsetWraps", [](Bytes& b) { put(b, after(b, kNorm) + 16, ~uint64_t{31}); }, "truncated"},
    {"Overlap",
     [](Bytes& b) { b.replace(after(b, kKey) + 24, 8, b.substr(after(b, kQuery) + 24, 8)); },
     "overlap"},
    {"SameTensorTwice", [](Bytes& b) { b.replace(b.find(kKey), kKey.size(), kQuery); },
     "'blk.0.attn_q.weight' is there twice"},
};

struct Case {
  const char* name;
  Damage damage;
  const char* words;
  const char* architecture = "llama";
};

using Strings = std::vector<std::string>;
using Integers = std::vector<int32_t>;

const Case kCases[] = {
    {"SameKeyTwice", [](GgufWriter& m) { m.append("general.name", "again"); },
     "'general.name' is there twice"},
    {"Alignment0", [](GgufWriter& m) { m.set("general.alignment", 0u); }, "power of two"},
    {"Alignment3", [](GgufWriter& m) { m.set("general.alignment", 3u); }, "power of two"},
    {"AlignmentHuge", [](GgufWriter& m) { m.set("general.alignment", 1u << 30); }, "power of two"},
    {"AlignmentText", [](GgufWriter& m) { m.set("general.alignment", "32"); },
     "'general.alignment' is a string"},
    {"HugeInteger", [](GgufWriter& m) { m.set("odd", ~uint64_t{0}); }, "above 2^63 - 1"},
    {"LongTensorName", [](GgufWriter& m) { m.tensors()[0].name.assign(64, 'x'); }, "at most 63"},
    {"NoTensors", [](GgufWriter& m) { m.tensors().clear(); }, "'token_embd.weight': it is missing"},
    {"SplitModel", [](GgufWriter& m) { m.set("split.count", 2u); }, "llama-gguf-split"},

    {"NoArchitecture", [](GgufWriter& m) { m.erase("general.architecture"); },
     "'general.architecture' is missing"},
    {"OtherArchitecture", [](GgufWriter& m) { m.set("general.architecture", "mamba"); },
     "'mamba' is not supported; supported are llama, qwen2, qwen3"},
    {"IntegerArchitecture", [](GgufWriter& m) { m.set("general.architecture", 1u); },
     "'general.architecture' is an integer"},
    {"NoLayers", [](GgufWriter& m) { m.erase("llama.block_count"); },
     "'llama.block_count' is missing"},
    {"ZeroLayers", [](GgufWriter& m) { m.set("llama.block_count", 0u); },
     "'llama.block_count': 0 is not between"},
    {"NegativeLayers", [](GgufWriter& m) { m.set("llama.block_count", -1); }, "-1 is not between"},
    {"ManyLayers", [](GgufWriter& m) { m.set("llama.block_count", 1'000'000u); },
     "1000000 is not between"},
    {"OneLayerMore", [](GgufWriter& m) { m.set("llama.block_count", 2u); },
     "'blk.1.attn_q.weight': it is missing"},
    {"TextWidth", [](GgufWriter& m) { m.set("llama.embedding_length", "wide"); },
     "'llama.embedding_length' is a string"},
    {"OddWidth", [](GgufWriter& m) { m.set("llama.embedding_length", 72u); },
     "not a multiple of 32"},
    {"OtherWidth", [](GgufWriter& m) { m.set("llama.embedding_length", 128u); },
     "'token_embd.weight': its shape is 64 x 320, but the keys make it 128 x 320"},
    {"OddFeedForward", [](GgufWriter& m) { m.set("llama.feed_forward_length", 100u); },
     "'llama.feed_forward_length'"},
    {"FeedForwardPerLayer",
     [](GgufWriter& m) {
       m.set("llama.feed_forward_length", Integers{96, 64});
     },
     "differs between layers (96 and 64)"},
    {"NoContext", [](GgufWriter& m) { m.set("llama.context_length", 0u); },
     "'llama.context_length'"},
    {"NoHeads", [](GgufWriter& m) { m.erase("llama.attention.head_count"); },
     "head_count' is missing"},
    {"ThreeKvHeads", [](GgufWriter& m) { m.set("llama.attention.head_count_kv", 3u); },
     "3 does not divide 4 heads"},
    {"HeadsPerLayer",
     [](GgufWriter& m) {
       m.set("llama.attention.head_count_kv", Integers{2, 4});
     },
     "differs between layers"},
    {"OddHeads",
     [](GgufWriter& m) {
       m.set("llama.attention.head_count", 5u);
       m.set("llama.attention.head_count_kv", 5u);
       m.erase("llama.attention.key_length");
     },
     "5 does not divide 64"},
    {"HeadOf12", [](GgufWriter& m) { m.set("llama.attention.key_length", 12u); }, "multiple of 8"},
    {"OtherValueLength", [](GgufWriter& m) { m.set("llama.attention.value_length", 32u); },
     "32 differs from key length 16"},
    {"OddRotation", [](GgufWriter& m) { m.set("llama.rope.dimension_count", 15u); }, "15 is odd"},
    {"WideRotation", [](GgufWriter& m) { m.set("llama.rope.dimension_count", 18u); },
     "'llama.rope.dimension_count': 18 is not between"},
    {"Yarn", [](GgufWriter& m) { m.set("llama.rope.scaling.type", "yarn"); },
     "RoPE scaling 'yarn'"},
    {"LongRope", [](GgufWriter& m) { m.set("qwen2.rope.scaling.type", "longrope"); },
     "RoPE scaling 'longrope'", "qwen2"},
    {"NegativeScale", [](GgufWriter& m) { m.set("llama.rope.scaling.factor", -2.0f); },
     "rope.scaling.factor': -2"},
    {"NegativeBase", [](GgufWriter& m) { m.set("llama.rope.freq_base", -1.0f); },
     "rope.freq_base': -1"},
    {"NoEpsilon", [](GgufWriter& m) { m.erase("llama.attention.layer_norm_rms_epsilon"); },
     "layer_norm_rms_epsilon' is missing"},
    {"NanEpsilon", [](GgufWriter& m) { m.set("llama.attention.layer_norm_rms_epsilon", NAN); },
     "layer_norm_rms_epsilon': nan"},
    {"SlidingWindow", [](GgufWriter& m) { m.set("llama.attention.sliding_window", 4096u); },
     "sliding-window attention is not supported"},
    {"Experts", [](GgufWriter& m) { m.set("llama.expert_count", 8u); },
     "a mixture of experts is not supported"},
    {"LogitScale", [](GgufWriter& m) { m.set("llama.logit_scale", 0.5f); },
     "a scale of logits is not supported"},

    {"NoTokenizer", [](GgufWriter& m) { m.erase("tokenizer.ggml.model"); },
     "'tokenizer.ggml.model' is missing"},
    {"BertTokenizer", [](GgufWriter& m) { m.set("tokenizer.ggml.model", "bert"); },
     "tokenizer 'bert' is not supported"},
    {"UnknownPreTokenizer", [](GgufWriter& m) { m.set("tokenizer.ggml.pre", "nonsense"); },
     "nonsense"},
    {"NoTokens", [](GgufWriter& m) { m.erase("tokenizer.ggml.tokens"); },
     "'tokenizer.ggml.tokens'"},
    {"IntegerTokens",
     [](GgufWriter& m) {
       m.set("tokenizer.ggml.tokens", Integers{1, 2});
     },
     "an array of tokens is needed"},
    {"EmptyTokens", [](GgufWriter& m) { m.set("tokenizer.ggml.tokens", Strings{}); },
     "an array of tokens is needed"},
    {"EmptyToken", [](GgufWriter& m) { m.get<Strings>("tokenizer.ggml.tokens")[300].clear(); },
     "token 300 is empty"},
    {"SameTokenTwice",
     [](GgufWriter& m) {
       auto& t = m.get<Strings>("tokenizer.ggml.tokens");
       t[319] = t[300];
     },
     "tokens 300 and 319 are both"},
    {"TokenWithNul",
     [](GgufWriter& m) { m.get<Strings>("tokenizer.ggml.tokens")[300] = Bytes("a\0b", 3); },
     "token 300 is not UTF-8"},
    {"TokenNotUtf8",
     [](GgufWriter& m) { m.get<Strings>("tokenizer.ggml.tokens")[300] = "\xc0\x80"; },
     "token 300 is not UTF-8"},
    {"NoLetterA",
     [](GgufWriter& m) {
       for (auto& t : m.get<Strings>("tokenizer.ggml.tokens"))
         if (t == "a") t = "gone";
     },
     "no token for the byte 0x61"},
    {"OneTokenLess",
     [](GgufWriter& m) {
       m.get<Strings>("tokenizer.ggml.tokens").pop_back();
       m.get<Integers>("tokenizer.ggml.token_type").pop_back();
     },
     "the keys make it 64 x 319"},
    {"FewTypes", [](GgufWriter& m) { m.get<Integers>("tokenizer.ggml.token_type").pop_back(); },
     "319 elements for 320 tokens"},
    {"TokenType77", [](GgufWriter& m) { m.get<Integers>("tokenizer.ggml.token_type")[7] = 77; },
     "token 7 has the unknown type 77"},
    {"FloatTypes",
     [](GgufWriter& m) { m.set("tokenizer.ggml.token_type", std::vector<float>(320)); },
     "an array of integers is needed"},
    {"OddByteToken", [](GgufWriter& m) { m.get<Integers>("tokenizer.ggml.token_type")[300] = 6; },
     "token 300 is a byte token, but"},
    {"NoMerges", [](GgufWriter& m) { m.erase("tokenizer.ggml.merges"); },
     "an array of merges is needed"},
    {"MergeWithoutSpace", [](GgufWriter& m) { m.get<Strings>("tokenizer.ggml.merges")[1] = "in"; },
     "merge 1 is not two texts"},
    {"MergeOfOne", [](GgufWriter& m) { m.get<Strings>("tokenizer.ggml.merges")[1] = "i "; },
     "merge 1 is not two texts"},
    {"MergeToNothing", [](GgufWriter& m) { m.get<Strings>("tokenizer.ggml.merges")[1] = "x y"; },
     "merge 1 gives 'xy', which is no token"},
    {"EosOutOfRange", [](GgufWriter& m) { m.set("tokenizer.ggml.eos_token_id", 320u); },
     "'tokenizer.ggml.eos_token_id': token 320"},
    {"NegativeBos", [](GgufWriter& m) { m.set("tokenizer.ggml.bos_token_id", -1); },
     "'tokenizer.ggml.bos_token_id': token -1"},
    {"TextEos", [](GgufWriter& m) { m.set("tokenizer.ggml.eos_token_id", "</s>"); },
     "eos_token_id' is a string"},
    {"ShortScores", [](GgufWriter& m) { m.set("tokenizer.ggml.scores", std::vector<float>(3)); },
     "3 elements for 320 tokens"},
    {"NanScores",
     [](GgufWriter& m) { m.set("tokenizer.ggml.scores", std::vector<float>(320, NAN)); },
     "score of token 0 is not finite"},
    {"SpmWithoutScores", [](GgufWriter& m) { m.set("tokenizer.ggml.model", "llama"); },
     "'tokenizer.ggml.scores'"},
    {"SpmWithoutBytes",
     [](GgufWriter& m) {
       m.set("tokenizer.ggml.model", "llama");
       m.set("tokenizer.ggml.scores", std::vector<float>(320));
     },
     "no token for the byte 0x00"},
    {"TemplateWithNul", [](GgufWriter& m) { m.set("tokenizer.chat_template", Bytes("a\0b", 3)); },
     "'tokenizer.chat_template' holds a NUL"},

    {"NoEmbedding", [](GgufWriter& m) { m.tensor("token_embd.weight").name = "embedding"; },
     "'token_embd.weight': it is missing"},
    {"NoNorm", [](GgufWriter& m) { m.tensor("output_norm.weight").name = "norm"; },
     "'output_norm.weight': it is missing"},
    {"SwappedShape",
     [](GgufWriter& m) {
       m.tensor("blk.0.ffn_down.weight").shape = {64, 96};
     },
     "'blk.0.ffn_down.weight': its shape is 64 x 96"},
    {"ThreeDimensions",
     [](GgufWriter& m) {
       m.tensor("blk.0.ffn_up.weight").shape = {64, 48, 2};
     },
     "64 x 48 x 2"},
    {"QuantisedNorm", [](GgufWriter& m) { m.tensor("output_norm.weight").type = 8; },
     "norms and biases are F32"},
    {"IntegerMatrix", [](GgufWriter& m) { m.tensor("blk.0.attn_q.weight").type = 26; },
     "'blk.0.attn_q.weight'"},
    {"UnknownTensor",
     [](GgufWriter& m) {
       m.tensors().push_back({"blk.0.attn_output.bias", 0, {64}});
     },
     "'blk.0.attn_output.bias': architecture 'llama' has no such tensor"},
    {"FactorsTooFew", [](GgufWriter& m) { m.tensor("rope_freqs.weight").shape = {7}; },
     "'rope_freqs.weight': its shape is 7"},
    {"FactorsElsewhere",
     [](GgufWriter& m) {
       m.tensors().push_back({"rope_freqs.weight", 0, {8}});
     },
     "'rope_freqs.weight': architecture 'qwen2'", "qwen2"},
    {"Qwen2WithoutBias", [](GgufWriter& m) { m.tensors().pop_back(); },
     "'blk.0.attn_v.bias': it is missing", "qwen2"},
    {"Qwen3WithoutNorm", [](GgufWriter& m) { m.tensors().pop_back(); },
     "'blk.0.attn_k_norm.weight': it is missing", "qwen3"},
};

/// Ones wherever floats are, so that norms and factors are sound.
void ones(size_t, int64_t, std::span<std::byte> rows) {
  constexpr float kOne = 1;
  for (size_t at = 0; at + sizeof kOne <= rows.size(); at += sizeof kOne) {
    std::memcpy(rows.data() + at, &kOne, sizeof kOne);
  }
}

class BadBytes : public testing::TestWithParam<ByteCase> {};

TEST_P(BadBytes, GiveAClearError) {
  Bytes bytes = valid_bytes();
  GetParam().damage(bytes);
  const std::string error = error_of(bytes);
  EXPECT_NE(error.find(GetParam().words), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(Corpus, BadBytes, testing::ValuesIn(kByteCases),
                         [](const auto& info) { return std::string(info.param.name); });

class BadModel : public testing::TestWithParam<Case> {};

TEST_P(BadModel, GivesAClearError) {
  const auto options = options_of(GetParam().architecture);
  GgufWriter model = random_model(options);
  GetParam().damage(model);
  // No random weights here: zeros do, and the damage may have changed rows in ways they do not
  // know.
  const std::string error = error_of(model.bytes(ones));
  EXPECT_NE(error.find(GetParam().words), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(Corpus, BadModel, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(BadValues, NormsAndFactorsMustMakeSense) {
  const auto options = options_of("llama");
  const GgufWriter model = random_model(options);
  const auto with = [&](std::string_view name, float value) {
    return error_of(model.bytes([&](size_t tensor, int64_t row, std::span<std::byte> rows) {
      random_weights(options, model)(tensor, row, rows);
      if (model.tensors()[tensor].name == name) std::memcpy(rows.data(), &value, sizeof value);
    }));
  };
  EXPECT_EQ(with("nothing", 0), "no error");
  EXPECT_NE(with("blk.0.ffn_norm.weight", NAN).find("not finite"), std::string::npos);
  EXPECT_NE(with("output_norm.weight", INFINITY).find("not finite"), std::string::npos);
  EXPECT_NE(with("rope_freqs.weight", 0).find("factor 0 is 0"), std::string::npos);
}

TEST(BadValues, ChangedBytesNeverCrash) {
  const Bytes valid = valid_bytes();
  const size_t header = random_model(options_of("llama")).header().size();
  int refused = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    base::Rng rng(7, seed);
    Bytes bytes = valid;
    for (uint64_t n = 1 + rng.below(3); n > 0; --n) {
      bytes[rng.below(header)] = static_cast<char>(rng.below(4) ? rng.next() : 0xff);
    }
    const auto gguf = Gguf::parse(std::as_bytes(std::span(bytes)), "memory");
    const auto config = gguf ? arch::read_config(*gguf) : tl::unexpected(gguf.error());
    if (!config || (seed % 8 == 0 && !Vocabulary::open(*gguf))) ++refused;
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace retort::engine
