// Oracle: std::chrono's calendar, for every kind of question and for the statements in the chains.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <sstream>

#include "symbolic/family.h"

namespace retort::symbolic {
namespace {

using std::chrono::days;
using std::chrono::sys_days;

constexpr std::array kWeekdays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                  "Thursday", "Friday", "Saturday"};
constexpr std::array kMonths = {"January",   "February", "March",    "April",
                                "May",       "June",     "July",     "August",
                                "September", "October",  "November", "December"};

sys_days read_date(const std::string& text) {
  int y = 0;
  unsigned m = 0, d = 0;
  EXPECT_EQ(std::sscanf(text.c_str(), "%d-%u-%u", &y, &m, &d), 3) << text;
  const std::chrono::year_month_day date{std::chrono::year(y), std::chrono::month(m),
                                         std::chrono::day(d)};
  EXPECT_TRUE(date.ok()) << text;
  return date;
}

std::string weekday_name(sys_days day) { return kWeekdays[std::chrono::weekday(day).c_encoding()]; }

std::string date_text(sys_days day) {
  const std::chrono::year_month_day date(day);
  return fmt::format("{} {} {}", static_cast<unsigned>(date.day()),
                     kMonths[static_cast<unsigned>(date.month()) - 1],
                     static_cast<int>(date.year()));
}

/// The answer to a canonical problem, and its size in days.
std::string solve(const std::string& canonical, int& size) {
  std::istringstream words(canonical);
  std::string mark, kind, first, second;
  words >> mark >> kind >> first >> second;
  if (kind == "weekday") {
    sys_days day{};
    while (weekday_name(day) != first) day += days(1);
    size = std::abs(std::stoi(second));
    return weekday_name(day + days(std::stoi(second)));
  }
  const sys_days start = read_date(first);
  if (kind == "date") {
    size = std::stoi(second);
    return date_text(start + days(size));
  }
  const sys_days stop = read_date(second);
  size = static_cast<int>((stop - start).count());
  return kind == "weekday-of" ? weekday_name(stop) : fmt::format("{}", size);
}

TEST(Calendar, AnswersAgreeWithChrono) {
  const Family& family = *find_family("calendar");
  for (Split split : {Split::kTrain, Split::kExtrapolation}) {
    for (int i = 0; i < 4000; ++i) {
      base::Rng rng(17, i);
      const Problem problem = family.sample(rng, split);
      int size = 0;
      EXPECT_EQ(solve(problem.canonical, size), problem.answer) << problem.completion();
      EXPECT_TRUE(split == Split::kTrain ? size <= 91 : size >= 60) << problem.canonical;
    }
  }
}

/// What the prompt says of a weekday must be so too.
TEST(Calendar, PromptsTellTheTrueWeekday) {
  const Family& family = *find_family("calendar");
  for (int i = 0; i < 1000; ++i) {
    base::Rng rng(18, i);
    const Problem problem = family.sample(rng, Split::kTrain);
    if (!problem.canonical.starts_with("calendar weekday-of ")) continue;
    const sys_days start = read_date(problem.canonical.substr(20, 10));
    const std::string fact = date_text(start) + " is a " + weekday_name(start);
    EXPECT_NE(problem.prompt.find(fact), std::string::npos) << problem.prompt;
  }
}

/// Sums, month lengths, leap years and numbers of weekdays (Monday = 0).
void expect_true_statement(const std::string& statement, int year) {
  int a = 0, b = 0, c = 0;
  char op = 0, name[32] = "";
  const char* text = statement.c_str();
  if (std::sscanf(text, "%d %c %d = %d", &a, &op, &b, &c) == 4) {
    EXPECT_EQ(op == '*' ? a * b : op == '+' ? a + b : a - b, c) << statement;
  } else if (std::sscanf(text, "%d = %31s", &a, name) == 2) {
    EXPECT_STREQ(kWeekdays[(a + 1) % 7], name) << statement;
  } else if (std::sscanf(text, "%31s = %d", name, &a) == 2) {
    EXPECT_STREQ(kWeekdays[(a + 1) % 7], name) << statement;
  } else if (std::sscanf(text, "%31s has %d", name, &a) == 2) {
    const auto found = std::find(kMonths.begin(), kMonths.end(), std::string(name));
    const auto month = static_cast<unsigned>(found - kMonths.begin() + 1);
    const std::chrono::year_month_day_last last{
        std::chrono::year(year), std::chrono::month_day_last(std::chrono::month(month))};
    EXPECT_EQ(static_cast<unsigned>(last.day()), a) << statement << " in " << year;
  } else if (statement == "leap" || statement == "common") {
    EXPECT_EQ(statement == "leap", std::chrono::year(year).is_leap()) << year;
  } else {
    EXPECT_TRUE(statement.ends_with("fits") || std::sscanf(text, "%31s %d", name, &a) == 2)
        << statement;
  }
}

TEST(Calendar, EveryStatementOfTheChainIsTrue) {
  const Family& family = *find_family("calendar");
  std::set<bool> leap_years_crossed;
  for (int i = 0; i < 4000; ++i) {
    base::Rng rng(19, i);
    const Problem problem = family.sample(rng, i % 4 ? Split::kTrain : Split::kExtrapolation);
    const size_t start_date = problem.canonical.find(" 20");
    int year = 0;
    if (start_date != std::string::npos) year = std::stoi(problem.canonical.substr(start_date));
    std::istringstream chain(problem.chain);
    for (std::string line; std::getline(chain, line);) {
      for (size_t start = 0, stop = 0; stop != line.npos; start = stop + 2) {
        stop = line.find(". ", start);
        const std::string statement = line.substr(start, stop - start);
        expect_true_statement(statement, year);
        if (statement == "leap" || statement == "common") {
          leap_years_crossed.insert(statement == "leap");
        }
        int turned = 0;
        char month[32] = "";
        if (std::sscanf(statement.c_str(), "%31[A-Z a-z]%d", month, &turned) == 2 &&
            turned > 2000) {
          year = turned;  // "January 2024": the year of the statements that follow
        }
      }
    }
  }
  EXPECT_EQ(leap_years_crossed.size(), 2u);
}

TEST(Calendar, ReadsTheUsualForms) {
  const Family& family = *find_family("calendar");
  for (const char* answer : {"25 April 2023", "April 25, 2023", "2023-04-25.", "25 APRIL 2023"}) {
    EXPECT_TRUE(
        family.check("calendar date 2023-03-14 42", fmt::format("Answer: {}", answer))->correct)
        << answer;
  }
  for (const char* answer : {"25 April", "24 April 2023", "31 April 2023", "Tuesday", "42"}) {
    EXPECT_FALSE(
        family.check("calendar date 2023-03-14 42", fmt::format("Answer: {}", answer))->correct)
        << answer;
  }
  EXPECT_TRUE(family.check("calendar weekday Tuesday 17", "Answer: **friday**.")->correct);
  EXPECT_TRUE(family.check("calendar between 2023-03-14 2023-04-25", "Answer: 42 days")->correct);
  EXPECT_FALSE(family.check("calendar between 2023-03-14 2023-02-25", "Answer: 42 days"));
  EXPECT_FALSE(family.check("calendar weekday-of 2023-02-29 2023-04-25", "Answer: Monday"));
  EXPECT_FALSE(family.check("calendar date 1999-03-14 42", "Answer: 42"));
}

}  // namespace
}  // namespace retort::symbolic
