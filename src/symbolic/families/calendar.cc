// Calendar arithmetic: a weekday some days on or back, a date some days on, the weekday of another
// date, the days between two dates. Every month length and leap year is stated before it is used.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "symbolic/text.h"

namespace retort::symbolic {
namespace {

constexpr std::array<std::string_view, 7> kWeekdays = {
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};
constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr int kFirstYear = 2001;
constexpr int kLastYear = 2099;
constexpr int kShiftMax = 1000;

// {0}: what is given, {1}: what is asked.
constexpr std::array<std::string_view, 12> kPhrasings = {
    "If {0}, find {1}.",
    "Given that {0}, what is {1}?",
    "Suppose {0}. Work out {1}.",
    "Calendar: {0}. Compute {1}.",
    "We know that {0}. Give {1}.",
    "Assume {0} and determine {1}.",
    "Let us say {0}. Tell me {1}.",
    "Knowing {0}, calculate {1}.",
    "Since {0}, I need {1}. Please help.",
    "Starting from the fact that {0}, derive {1}.",
    "My diary says {0}. Could you name {1}?",
    "Imagine {0}; state {1}.",
};
constexpr std::string_view kFormat = "\nEnd with \"Answer: ...\".";

struct Date {
  int year = kFirstYear;
  int month = 1;  // 1 to 12
  int day = 1;
};

enum class Kind { kShiftWeekday, kShiftDate, kWeekdayOf, kDaysBetween };
constexpr std::array<std::string_view, 4> kKindNames = {"weekday", "date", "weekday-of", "between"};

struct Task {
  Kind kind = Kind::kShiftWeekday;
  int weekday = 0;  // kShiftWeekday: the start
  int shift = 0;    // days; negative only for kShiftWeekday
  Date start;
  Date stop;  // kWeekdayOf and kDaysBetween; in the year of the start, later

  bool has_stop() const { return kind == Kind::kWeekdayOf || kind == Kind::kDaysBetween; }
  bool asks_weekday() const { return kind == Kind::kShiftWeekday || kind == Kind::kWeekdayOf; }
};

bool is_leap(int year) { return year % 4 == 0; }  // true of 2001 to 2099

int month_length(int year, int month) {
  constexpr std::array<int, 12> kLengths = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kLengths[month - 1] + (month == 2 && is_leap(year));
}

int day_of_year(const Date& date) {
  int day = date.day;
  for (int month = 1; month < date.month; ++month) day += month_length(date.year, month);
  return day;
}

/// 1 January 2001 was a Monday.
int weekday_of(const Date& date) {
  int days = day_of_year(date) - 1;
  for (int year = kFirstYear; year < date.year; ++year) days += is_leap(year) ? 366 : 365;
  return days % 7;
}

std::string date_text(const Date& date) {
  return fmt::format("{} {} {}", date.day, kMonths[date.month - 1], date.year);
}

std::string iso_text(const Date& date) {
  return fmt::format("{}-{:02}-{:02}", date.year, date.month, date.day);
}

/// Does the arithmetic of days and writes it down.
class Diary {
 public:
  /// Weekday `days` on from `weekday`, or back where negative.
  int shift_weekday(int weekday, int days) {
    const int rest = reduce(std::abs(days));
    const std::string_view name = kWeekdays[weekday];
    const int sum = days < 0 ? weekday - rest : weekday + rest;
    std::string line = fmt::format("{} = {}. {} {} {} = {}", name, weekday, weekday,
                                   days < 0 ? '-' : '+', rest, sum);
    if (sum < 0) line += fmt::format(". {} + 7 = {}", sum, sum + 7);
    if (sum > 6) line += fmt::format(". {} - 7 = {}", sum, sum - 7);
    const int result = (sum + 7) % 7;
    lines_.push_back(fmt::format("{}. {} = {}", line, result, kWeekdays[result]));
    return result;
  }

  /// The date `days` after `date`: the day of the month runs over, month after month.
  Date shift_date(Date date, int days) {
    int day = date.day + days;
    lines_.push_back(fmt::format("{} + {} = {}", date.day, days, day));
    int length = state_month(date.year, date.month);
    while (day > length) {
      advance(date);
      lines_.back() += fmt::format(". {} - {} = {}. {} {}", day, length, day - length,
                                   kMonths[date.month - 1], date.year);
      day -= length;
      length = state_month(date.year, date.month);
    }
    lines_.back() += fmt::format(". {} fits", day);
    date.day = day;
    return date;
  }

  /// Days from `start` to `stop` in the same year.
  int days_between(const Date& start, const Date& stop) {
    if (start.month == stop.month) {
      lines_.push_back(fmt::format("{} - {} = {}", stop.day, start.day, stop.day - start.day));
      return stop.day - start.day;
    }
    const int length = state_month(start.year, start.month);
    int sum = length - start.day;
    lines_.back() += fmt::format(". {} - {} = {}", length, start.day, sum);
    for (int month = start.month + 1; month < stop.month; ++month) {
      const int days = state_month(start.year, month);
      lines_.back() += fmt::format(". {} + {} = {}", sum, days, sum + days);
      sum += days;
    }
    lines_.push_back(fmt::format("{} + {} = {}", sum, stop.day, sum + stop.day));
    return sum + stop.day;
  }

  std::string text() const { return lines(lines_); }

 private:
  static void advance(Date& date) {
    date.month = date.month % 12 + 1;
    date.year += date.month == 1;
  }

  /// Opens a line "March has 31"; before February's the year is tried for a leap year.
  int state_month(int year, int month) {
    const int length = month_length(year, month);
    if (month == 2) {
      const int two_digits = year % 100;
      const int multiple = two_digits / 4 * 4;
      lines_.push_back(fmt::format("4 * {} = {}. {} - {} = {}. {}", two_digits / 4, multiple,
                                   two_digits, multiple, two_digits - multiple,
                                   is_leap(year) ? "leap" : "common"));
    }
    lines_.push_back(fmt::format("{} has {}", kMonths[month - 1], length));
    return length;
  }

  int reduce(int days) {
    if (days < 7) return days;
    const int multiple = days / 7 * 7;
    lines_.push_back(fmt::format("7 * {} = {}. {} - {} = {}", days / 7, multiple, days, multiple,
                                 days - multiple));
    return days - multiple;
  }

  std::vector<std::string> lines_;
};

struct Solution {
  std::string chain;
  std::string answer;
};

Solution solve(const Task& task) {
  Diary diary;
  std::string answer;
  switch (task.kind) {
    case Kind::kShiftWeekday:
      answer = kWeekdays[diary.shift_weekday(task.weekday, task.shift)];
      break;
    case Kind::kShiftDate:
      answer = date_text(diary.shift_date(task.start, task.shift));
      break;
    case Kind::kWeekdayOf: {
      const int days = diary.days_between(task.start, task.stop);
      answer = kWeekdays[diary.shift_weekday(weekday_of(task.start), days)];
      break;
    }
    case Kind::kDaysBetween:
      answer = fmt::format("{}", diary.days_between(task.start, task.stop));
      break;
  }
  return {diary.text(), answer};
}

struct Sizes {
  int shift_min;
  int shift_max;
  int months_min;  // from the start's month to the stop's
  int months_max;
};

constexpr Sizes kTraining = {8, 60, 1, 2};
constexpr Sizes kExtrapolation = {61, 120, 3, 5};

Date draw_date(base::Rng& rng, int year, int month) {
  return {year, month, static_cast<int>(rng.between(1, month_length(year, month)))};
}

Task draw(base::Rng& rng, const Sizes& sizes) {
  Task task;
  task.kind = static_cast<Kind>(rng.below(kKindNames.size()));
  task.shift = static_cast<int>(rng.between(sizes.shift_min, sizes.shift_max));
  task.weekday = static_cast<int>(rng.below(kWeekdays.size()));
  if (task.kind == Kind::kShiftWeekday && rng.below(2) == 1) task.shift = -task.shift;
  const int months = static_cast<int>(rng.between(sizes.months_min, sizes.months_max));
  // A shifted date may run into the next year, which must still be one of ours.
  const int year = static_cast<int>(rng.between(kFirstYear, kLastYear - 1));
  const int month = static_cast<int>(rng.between(1, task.has_stop() ? 12 - months : 12));
  task.start = draw_date(rng, year, month);
  if (task.has_stop()) task.stop = draw_date(rng, year, month + months);
  return task;
}

std::string given_text(const Task& task) {
  switch (task.kind) {
    case Kind::kShiftWeekday:
      return fmt::format("it is {}", kWeekdays[task.weekday]);
    case Kind::kWeekdayOf:
      return fmt::format("{} is a {}", date_text(task.start), kWeekdays[weekday_of(task.start)]);
    default:
      return fmt::format("it is {}", date_text(task.start));
  }
}

std::string wanted_text(const Task& task) {
  switch (task.kind) {
    case Kind::kShiftWeekday:
      return fmt::format("the weekday {} days {}", std::abs(task.shift),
                         task.shift < 0 ? "ago" : "from now");
    case Kind::kShiftDate:
      return fmt::format("the date {} days from now", task.shift);
    case Kind::kWeekdayOf:
      return fmt::format("the weekday of {}", date_text(task.stop));
    case Kind::kDaysBetween:
      return fmt::format("the number of days until {}", date_text(task.stop));
  }
  return "";
}

std::string canonical_text(const Task& task) {
  const std::string head = fmt::format("calendar {} ", kKindNames[static_cast<int>(task.kind)]);
  if (task.kind == Kind::kShiftWeekday) {
    return head + fmt::format("{} {}", kWeekdays[task.weekday], task.shift);
  }
  const std::string start = head + iso_text(task.start) + " ";
  return start + (task.has_stop() ? iso_text(task.stop) : fmt::format("{}", task.shift));
}

/// Index of a name, in any case.
template <size_t N>
std::optional<int> find_name(const std::array<std::string_view, N>& names, std::string_view word) {
  const auto same = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  for (size_t i = 0; i < N; ++i) {
    if (std::ranges::equal(names[i], word, same)) return static_cast<int>(i);
  }
  return std::nullopt;
}

std::optional<Date> valid(int year, int month, int day) {
  const bool in_range = year >= kFirstYear && year <= kLastYear && month >= 1 && month <= 12;
  if (!in_range || day < 1 || day > month_length(year, month)) return std::nullopt;
  return Date{year, month, day};
}

/// "2023-04-25".
std::optional<Date> parse_iso(Scanner& scanner) {
  const int year = scanner.integer().value_or(0);
  const int month = scanner.eat("-") ? scanner.integer().value_or(0) : 0;
  const int day = scanner.eat("-") ? scanner.integer().value_or(0) : 0;
  return valid(year, month, day);
}

/// "25 April 2023", "April 25, 2023" or "2023-04-25"; nothing may follow.
std::optional<Date> parse_date(std::string_view text) {
  Scanner iso(text);
  if (const auto date = parse_iso(iso); date && iso.done()) return date;
  Scanner scanner(text);
  std::optional<int> day = scanner.integer();
  const auto month = find_name(kMonths, scanner.letters().value_or(""));
  if (!day) day = scanner.integer();
  scanner.eat(",");
  const std::optional<int> year = scanner.integer();
  if (!day || !month || !year || !scanner.done()) return std::nullopt;
  return valid(*year, *month + 1, *day);
}

std::optional<Task> parse_kind(Scanner& scanner) {
  const auto first = scanner.letters();
  if (!first) return std::nullopt;
  const std::string name = std::string(*first) + (scanner.eat("-of") ? "-of" : "");
  const auto kind = std::ranges::find(kKindNames, name);
  if (kind == kKindNames.end()) return std::nullopt;
  Task task;
  task.kind = static_cast<Kind>(kind - kKindNames.begin());
  return task;
}

bool parse_start(Scanner& scanner, Task& task) {
  if (task.kind == Kind::kShiftWeekday) {
    const auto weekday = find_name(kWeekdays, scanner.letters().value_or(""));
    task.weekday = weekday.value_or(0);
    return weekday.has_value();
  }
  const auto start = parse_iso(scanner);
  task.start = start.value_or(Date{});
  return start.has_value();
}

bool parse_stop(Scanner& scanner, Task& task) {
  if (task.has_stop()) {
    const auto stop = parse_iso(scanner);
    task.stop = stop.value_or(Date{});
    return stop && stop->year == task.start.year && day_of_year(*stop) > day_of_year(task.start);
  }
  const auto shift = scanner.integer();
  task.shift = shift.value_or(0);
  const int lowest = task.kind == Kind::kShiftWeekday ? -kShiftMax : 0;
  return shift && *shift >= lowest && *shift <= kShiftMax;
}

std::optional<Task> parse(std::string_view canonical) {
  Scanner scanner(canonical);
  if (!scanner.eat("calendar ")) return std::nullopt;
  std::optional<Task> task = parse_kind(scanner);
  if (!task || !parse_start(scanner, *task) || !parse_stop(scanner, *task)) return std::nullopt;
  return scanner.done() ? task : std::nullopt;
}

/// The answer in the form of Solution::answer; nullopt if it is of another kind.
std::optional<std::string> normal_answer(const Task& task, std::string_view answer) {
  if (task.kind == Kind::kShiftDate) {
    const auto date = parse_date(answer);
    return date ? std::optional(date_text(*date)) : std::nullopt;
  }
  Scanner scanner(answer);
  if (task.asks_weekday()) {
    const auto weekday = find_name(kWeekdays, scanner.letters().value_or(""));
    if (!weekday || !scanner.done()) return std::nullopt;
    return std::string(kWeekdays[*weekday]);
  }
  const auto days = scanner.integer();
  scanner.eat("days");
  if (!days || !scanner.done()) return std::nullopt;
  return fmt::format("{}", *days);
}

std::vector<std::string> prompts_of(const Task& task) {
  return fill_all(kPhrasings, kFormat, given_text(task), wanted_text(task));
}

class Calendar final : public Family {
 public:
  std::string_view name() const override { return "calendar"; }
  std::string_view description() const override { return "weekdays, dates and days between them"; }
  int levels() const override { return static_cast<int>(kKindNames.size()); }

  Problem sample(base::Rng& rng, Split split) const override {
    const bool larger = split == Split::kExtrapolation;
    const Task task = draw(rng, larger ? kExtrapolation : kTraining);
    const Solution solution = solve(task);
    Problem problem;
    choose_prompt(problem, rng, split, prompts_of(task));
    problem.chain = solution.chain;
    problem.answer = solution.answer;
    problem.canonical = canonical_text(task);
    problem.level = static_cast<int>(task.kind) + (larger ? levels() : 0);
    return problem;
  }

  std::vector<std::string> prompts(std::string_view canonical) const override {
    const std::optional<Task> task = parse(canonical);
    return task ? prompts_of(*task) : std::vector<std::string>();
  }

  base::Result<Check> check(std::string_view canonical, std::string_view text) const override {
    const std::optional<Task> task = parse(canonical);
    if (!task) return foreign(name(), canonical);
    const std::string expected = solve(*task).answer;
    return judge_answer(text, [&](std::string_view answer) {
      const auto said = normal_answer(*task, answer);
      if (!said) return wrong("not an answer to the question: '{}'", answer);
      return *said == expected ? right() : wrong("says {}, should be {}", *said, expected);
    });
  }
};

}  // namespace

const Family& calendar() {
  static const Calendar family;
  return family;
}

}  // namespace retort::symbolic
