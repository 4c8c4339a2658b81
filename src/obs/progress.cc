#include "obs/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>

namespace retort::obs {
namespace {

constexpr int64_t kLiveIntervalMs = 100;
constexpr int64_t kPlainIntervalMs = 10'000;
constexpr int64_t kPlainGapMs = 1'000;
constexpr int kBarCells = 24;
constexpr int kColumnsDefault = 80;
constexpr std::string_view kClearLine = "\r\x1b[K";

int64_t monotonic_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

/// The width is asked for at every redraw: people resize windows.
int columns_of(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kColumnsDefault;
  return size.ws_col;
}

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

}  // namespace

/// Fixed text buffer. What does not fit in `columns` or in the buffer is left out, at a boundary
/// between code points; control characters become spaces, so that no field can break the line.
class Progress::Line {
 public:
  explicit Line(int columns) : columns_(columns) {}

  void add(std::string_view text) {
    for (const char c : text) {
      if (starts_code_point(c) && (full_ = full_ || columns_ == 0 || size_ + 4 > kTextMax)) return;
      columns_ -= starts_code_point(c) ? 1 : 0;
      put(static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c);
    }
  }
  template <class... Args>
  void format(fmt::format_string<Args...> pattern, Args&&... args) {
    std::array<char, 128> piece;
    const auto result =
        fmt::format_to_n(piece.data(), piece.size(), pattern, std::forward<Args>(args)...);
    add({piece.data(), std::min(result.size, piece.size())});
  }
  void add_duration(int64_t ms) {
    const int64_t s = ms / 1000;
    if (s >= 3600) return format("{}h{:02}m", s / 3600, s / 60 % 60);
    if (s >= 60) return format("{}m{:02}s", s / 60, s % 60);
    if (s >= 10) return format("{}s", s);
    format("{:.1f}s", static_cast<double>(ms) / 1000);
  }
  /// Terminal control or a line end: takes no column and always fits.
  void control(std::string_view text) {
    for (const char c : text) put(c);
  }
  std::string_view text() const { return {buffer_.data(), size_}; }

 private:
  static constexpr size_t kTextMax = 500;
  void put(char c) {
    if (size_ < buffer_.size()) buffer_[size_++] = c;
  }
  std::array<char, kTextMax + 12> buffer_;
  size_t size_ = 0;
  int columns_;
  bool full_ = false;
};

Progress::Progress(std::string_view label, int64_t total, const ProgressOptions& options)
    : label_(label), total_(total), options_(options), done_(options.first) {
  const bool live = ::isatty(options.fd) == 1 && !is_set("NO_COLOR");
  mode_ = options.quiet ? Mode::kQuiet : live ? Mode::kLive : Mode::kPlain;
  started_ms_ = options_.now_ms != nullptr ? options_.now_ms() : monotonic_ms();
}

Progress::~Progress() {
  if (!ended_ && drawn_ && mode_ == Mode::kLive) end("stopped", {});
}

int64_t Progress::elapsed_ms() const {
  return (options_.now_ms != nullptr ? options_.now_ms() : monotonic_ms()) - started_ms_;
}

bool Progress::due(int64_t elapsed, int64_t done) const {
  const int64_t since = elapsed - drawn_ms_;
  if (mode_ == Mode::kLive) return !drawn_ || since >= kLiveIntervalMs;
  const bool tenth = total_ > 0 && done * 10 / total_ > drawn_tenth_;
  return since >= kPlainIntervalMs || (tenth && since >= kPlainGapMs);
}

void Progress::tick(int64_t done, std::string_view field) {
  if (ended_ || mode_ == Mode::kQuiet) return;
  done_ = done;
  const int64_t elapsed = elapsed_ms();
  if (!due(elapsed, done)) return;
  drawn_ms_ = elapsed;
  drawn_tenth_ = total_ > 0 ? done * 10 / total_ : 0;
  drawn_ = true;
  Line line(mode_ == Mode::kLive ? columns_of(options_.fd) - 1 : 400);
  mode_ == Mode::kLive ? draw_live(line, elapsed) : draw_plain(line, elapsed);
  if (!field.empty()) line.add("  ");
  line.add(field);
  if (mode_ == Mode::kPlain) line.control("\n");
  write(line);
}

void Progress::draw_live(Line& line, int64_t elapsed) const {
  line.control(kClearLine);
  line.add(label_);
  if (total_ > 0) {
    const int64_t done = std::clamp<int64_t>(done_, 0, total_);
    std::array<char, kBarCells> bar;
    bar.fill('.');
    std::fill_n(bar.begin(), static_cast<size_t>(done * kBarCells / total_), '#');
    line.add(" [");
    line.add({bar.data(), bar.size()});
    line.format("] {:3} %", done * 100 / total_);
  } else {
    line.format(" {}", done_);
  }
  add_pace(line, elapsed);
}

void Progress::draw_plain(Line& line, int64_t elapsed) const {
  line.add(label_);
  if (total_ > 0) {
    line.format(": {} % ({}/{})", done_ * 100 / total_, done_, total_);
  } else {
    line.format(": {}", done_);
  }
  add_pace(line, elapsed);
}

void Progress::add_pace(Line& line, int64_t elapsed) const {
  const int64_t fresh = done_ - options_.first;
  if (fresh <= 0 || elapsed <= 0) return;
  const double per_second = static_cast<double>(fresh) * 1000 / static_cast<double>(elapsed);
  if (per_second >= 10) {
    line.format("  {:.0f}/s", per_second);
  } else if (per_second >= 0.1) {
    line.format("  {:.2f}/s", per_second);
  } else {
    line.format("  {:.2f}/min", per_second * 60);
  }
  if (total_ <= done_) return;
  line.add("  ");
  line.add_duration(static_cast<int64_t>(static_cast<double>(total_ - done_) / per_second * 1000));
  line.add(" left");
}

void Progress::finish(std::string_view summary) { end("done", summary); }

void Progress::fail(std::string_view reason) { end("failed", reason); }

void Progress::end(std::string_view outcome, std::string_view detail) {
  if (ended_ || mode_ == Mode::kQuiet) return;
  ended_ = true;
  Line line(400);
  if (mode_ == Mode::kLive) line.control(kClearLine);
  line.add(label_);
  line.format(": {}, {} in ", outcome, done_ - options_.first);
  line.add_duration(elapsed_ms());
  if (!detail.empty()) line.add(", ");
  line.add(detail);
  line.control("\n");
  write(line);
}

/// A progress line that cannot be written is no reason to stop the work.
void Progress::write(const Line& line) const {
  std::string_view text = line.text();
  while (!text.empty()) {
    const ssize_t n = ::write(options_.fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace retort::obs
