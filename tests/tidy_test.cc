// Holds what decays silently: the direction of includes, paths named in pages, unused limits,
// sizes. Oracles: cmake/layers.txt, the tree itself, and for the rules a small tree with one fault
// of each.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace retort {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using Faults = std::vector<std::string>;  // "path:line: what", one each

constexpr size_t kColumnsMax = 100;
constexpr size_t kSourceLinesMax = 500;
constexpr size_t kTestLinesMax = 800;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool is_code(const fs::path& path) { return path.extension() == ".cc" || path.extension() == ".h"; }

bool is_text(const fs::path& path) {
  static const std::set<std::string> extensions = {".cc",   ".h",  ".cmake", ".txt",  ".md",  ".py",
                                                   ".toml", ".js", ".css",   ".html", ".lock"};
  const std::string folder = path.parent_path().filename();
  return extensions.contains(path.extension()) || path.filename() == "Makefile" ||
         (path.extension().empty() && (folder == "scripts" || folder == ".ci"));
}

/// Every file under root / folder, relative to root and sorted; what is built or hidden is left
/// out.
std::vector<fs::path> files_under(const fs::path& root, const fs::path& folder = {}) {
  std::vector<fs::path> files;
  if (!fs::exists(root / folder)) return files;
  for (auto it = fs::recursive_directory_iterator(root / folder); it != end(it); ++it) {
    const std::string name = it->path().filename();
    if (it->is_directory() && (name == "build" || (name[0] == '.' && name != ".ci"))) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file()) {
      files.push_back(it->path().lexically_relative(root));
    }
  }
  std::ranges::sort(files);
  return files;
}

std::string fault(const fs::path& path, size_t line, std::string_view what) {
  return fmt::format("{}:{}: {}", path.string(), line + 1, what);
}

/// cmake/layers.txt: for each layer the folders it may include, itself among them.
std::map<std::string, std::set<std::string>> read_layers(const fs::path& root) {
  std::map<std::string, std::set<std::string>> layers;
  for (const std::string& line : lines_of(read(root / "cmake/layers.txt"))) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string layer, word;
    words >> layer;
    layers[layer].insert(layer);
    while (words >> word) {
      if (word != "<") layers[layer].insert(word);
    }
  }
  return layers;
}

Faults include_faults(const fs::path& root) {
  constexpr std::string_view include = "#include \"";
  const auto layers = read_layers(root);
  Faults faults;
  for (const fs::path& path : files_under(root, "src")) {
    if (!is_code(path)) continue;
    const std::string layer = *std::next(path.begin());
    const auto allowed = layers.find(layer);
    if (allowed == layers.end()) {
      faults.push_back(fault(path, 0, "its folder has no line in cmake/layers.txt"));
      continue;
    }
    const auto lines = lines_of(read(root / path));
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!lines[i].starts_with(include)) continue;
      const std::string rest = lines[i].substr(include.size());
      if (!allowed->second.contains(rest.substr(0, rest.find_first_of("/\"")))) {
        faults.push_back(fault(path, i, fmt::format("{} may not include {}", layer, lines[i])));
      }
    }
  }
  return faults;
}

/// The words of a page that are code, each with its line number: those between backticks on one
/// line, and all within fenced blocks. Punctuation around a word is taken off.
std::vector<std::pair<size_t, std::string>> code_words(const std::string& page) {
  std::vector<std::pair<size_t, std::string>> found;
  const auto lines = lines_of(page);
  bool fenced = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with("```")) fenced = !fenced;
    std::istringstream pieces(lines[i]);
    bool code = fenced;
    for (std::string piece; std::getline(pieces, piece, '`'); code = fenced || !code) {
      std::istringstream words(code ? piece : "");
      for (std::string word; words >> word;) {
        const size_t first = word.find_first_not_of("([\"'");
        const size_t last = word.find_last_not_of(",.;:)]\"'");
        if (first <= last && last != word.npos) {
          found.emplace_back(i, word.substr(first, last - first + 1));
        }
      }
    }
  }
  return found;
}

/// Where `word` should be if it is written as a path of this tree, else empty. Layers may be named
/// as in an include; whatever follows a placeholder is not looked at.
fs::path path_named(const fs::path& root, std::string word) {
  static const std::set<std::string> folders = {"src", "tests",   "bench",   "tools", "docs",
                                                "web", "recipes", "scripts", "cmake", ".ci"};
  word = word.substr(0, word.find_first_of("*<${:"));
  const size_t slash = word.find('/');
  if (slash == word.npos) {
    const bool at_root = word == "Makefile" || word == "LICENSE" || word.ends_with(".md");
    return at_root ? root / word : fs::path();
  }
  const std::string first = word.substr(0, slash);
  if (folders.contains(first)) return root / word;
  return read_layers(root).contains(first) ? root / "src" / word : fs::path();
}

Faults page_faults(const fs::path& root) {
  std::vector<fs::path> pages = files_under(root, "docs");
  pages.insert(pages.end(), {"README.md", "ARCHITECTURE.md"});
  Faults faults;
  for (const fs::path& page : pages) {
    if (page.extension() != ".md") continue;
    for (const auto& [line, word] : code_words(read(root / page))) {
      const fs::path named = path_named(root, word);
      if (!named.empty() && !fs::exists(named)) {
        faults.push_back(fault(page, line, word + " does not exist"));
      }
    }
  }
  return faults;
}

/// The words of C++ in `text`, comments and strings included, in order.
std::vector<std::string> identifiers_of(std::string_view text) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  std::vector<std::string> identifiers;
  for (auto at = text.begin(); at != text.end();) {
    const auto begin = std::find_if(at, text.end(), is_part);
    at = std::find_if_not(begin, text.end(), is_part);
    if (begin != at) identifiers.emplace_back(begin, at);
  }
  return identifiers;
}

/// A limit that no other file of src/ names is a promise that nothing keeps.
Faults limit_faults(const fs::path& root) {
  std::set<std::string> used;
  for (const fs::path& path : files_under(root, "src")) {
    if (!is_code(path) || path == "src/base/limits.h") continue;
    for (std::string& word : identifiers_of(read(root / path))) used.insert(std::move(word));
  }
  Faults faults;
  const auto lines = lines_of(read(root / "src/base/limits.h"));
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto words = identifiers_of(lines[i].substr(0, lines[i].find('=')));
    if (std::ranges::find(words, "constexpr") == words.end() || used.contains(words.back()))
      continue;
    faults.push_back(fault("src/base/limits.h", i, words.back() + " limits nothing"));
  }
  return faults;
}

/// Characters, not bytes: continuation bytes of UTF-8 take no column.
size_t columns(const std::string& line) {
  return static_cast<size_t>(
      std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
}

Faults form_faults(const fs::path& root) {
  static const std::set<std::string> unfinished = {"TO"s + "DO", "FIX"s + "ME", "XX"s + "X"};
  Faults faults;
  for (const char* folder : {"src", "tests", "bench"}) {
    for (const fs::path& path : files_under(root, folder)) {
      if (!is_code(path)) continue;
      const auto lines = lines_of(read(root / path));
      const bool test = path.string().ends_with("_test.cc") || *path.begin() == "tests";
      if (lines.size() >= (test ? kTestLinesMax : kSourceLinesMax)) {
        faults.push_back(fault(path, lines.size() - 1, "the file is too long"));
      }
      for (size_t i = 0; i < lines.size(); ++i) {
        if (columns(lines[i]) > kColumnsMax)
          faults.push_back(fault(path, i, "line over 100 columns"));
        if (lines[i].find('\t') != std::string::npos) faults.push_back(fault(path, i, "tab"));
        for (const std::string& word : identifiers_of(lines[i])) {
          if (unfinished.contains(word)) faults.push_back(fault(path, i, "unfinished"));
        }
      }
    }
  }
  return faults;
}

/// Addresses that tie the tree to one registry or one person's machine. Written in halves so that
/// this file does not hold them.
Faults place_faults(const fs::path& root) {
  static const std::array<std::string, 8> places = {
      "py"s + "pi.org",  "python"s + "hosted.org", "deb."s + "debian.org", "crates"s + ".io",
      "npm"s + "js.org", "/ho"s + "me/",           "/ro"s + "ot/",         "/Us"s + "ers/"};
  Faults faults;
  for (const fs::path& path : files_under(root)) {
    if (!is_text(path)) continue;
    const auto lines = lines_of(read(root / path));
    for (size_t i = 0; i < lines.size(); ++i) {
      for (const std::string& place : places) {
        if (lines[i].find(place) != std::string::npos) {
          faults.push_back(fault(path, i, fmt::format("names {}", place)));
        }
      }
    }
  }
  return faults;
}

const fs::path kRoot = RETORT_SOURCE_DIR;

void expect_none(const Faults& faults) {
  for (const std::string& each : faults) ADD_FAILURE() << each;
}

TEST(Tidy, IncludesFollowTheLayers) { expect_none(include_faults(kRoot)); }
TEST(Tidy, PathsNamedInPagesExist) { expect_none(page_faults(kRoot)); }
TEST(Tidy, EveryLimitIsUsed) { expect_none(limit_faults(kRoot)); }
TEST(Tidy, SourcesKeepTheForm) { expect_none(form_faults(kRoot)); }
TEST(Tidy, NoFileNamesARegistryOrAHome) { expect_none(place_faults(kRoot)); }

/// A tree with one fault of each kind, and beside each something that looks like it but is allowed.
class FaultyTree : public testing::Test {
 protected:
  FaultyTree() : root_(fs::temp_directory_path() / fmt::format("retort-tidy-{}", getpid())) {}
  ~FaultyTree() override { fs::remove_all(root_); }
  void write(const fs::path& path, std::string_view text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  const fs::path root_;
};

TEST_F(FaultyTree, EachRuleSeesItsFault) {
  const std::string unfinished = "TO"s + "DO", home = "/ho"s + "me/";
  write("cmake/layers.txt", "# lowest first\nbase\nengine < base\n");
  write("src/base/limits.h", "constexpr int kUsedMax = 1;\nconstexpr int kIdleMax = 2;\n");
  write("src/engine/a.h", "#include \"base/limits.h\"\nint a = kUsedMax;\n");
  write("src/base/b.cc", "#include <engine.h>\n#include \"engine/a.h\"\n");
  write("src/lost/c.h", "");
  write("README.md", "`src/base/b.cc` `engine/a.h` application/json (`cmake/layers.txt`.)\n");
  write("docs/page.md", "tests/prose.txt\n```\ntool tests/none.txt, x\n```\n");
  write("src/engine/long.cc", std::string(101, 'x') + "\n// " + unfinished + "\n\tint tab;\n");
  write("src/engine/tall.cc", std::string(kSourceLinesMax, '\n'));
  write("src/engine/tall_test.cc", std::string(kSourceLinesMax, '\n'));
  write("scripts/run", "echo " + home + "someone\n");

  EXPECT_EQ(include_faults(root_),
            Faults({"src/base/b.cc:2: base may not include #include \"engine/a.h\"",
                    "src/lost/c.h:1: its folder has no line in cmake/layers.txt"}));
  EXPECT_EQ(page_faults(root_), Faults({"docs/page.md:3: tests/none.txt does not exist"}));
  EXPECT_EQ(limit_faults(root_), Faults({"src/base/limits.h:2: kIdleMax limits nothing"}));
  EXPECT_EQ(
      form_faults(root_),
      Faults({"src/engine/long.cc:1: line over 100 columns", "src/engine/long.cc:2: unfinished",
              "src/engine/long.cc:3: tab", "src/engine/tall.cc:500: the file is too long"}));
  EXPECT_EQ(place_faults(root_), Faults({"scripts/run:1: names " + home}));
}

}  // namespace
}  // namespace retort
