// Oracle: the elements as permutations of the polygon's corners, multiplied by composing them.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "symbolic/family.h"

namespace retort::symbolic {
namespace {

using Permutation = std::vector<int>;

/// "r3s": corner i goes to -i, then on by 3.
Permutation permutation(int n, const std::string& element) {
  const int rotation = std::stoi(element.substr(1));
  const bool reflects = element.back() == 's';
  Permutation image(n);
  for (int i = 0; i < n; ++i) image[i] = ((reflects ? n - i : i) + rotation) % n;
  return image;
}

Permutation compose(const Permutation& after, const Permutation& before) {
  Permutation image;
  for (int corner : before) image.push_back(after[corner]);
  return image;
}

TEST(Dihedral, AnswersAndEveryLineAgreeWithPermutations) {
  const Family& family = *find_family("dihedral");
  std::set<std::pair<int, size_t>> sizes[2];
  for (Split split : {Split::kTrain, Split::kExtrapolation}) {
    for (int i = 0; i < 2000; ++i) {
      base::Rng rng(14, i);
      const Problem problem = family.sample(rng, split);
      std::istringstream words(problem.canonical);
      std::string mark, factor;
      int n = 0;
      words >> mark >> n;
      Permutation product = permutation(n, "r0");
      size_t factors = 0;
      for (; words >> factor; ++factors) product = compose(product, permutation(n, factor));
      EXPECT_EQ(product, permutation(n, problem.answer)) << problem.completion();
      sizes[split == Split::kExtrapolation].insert({n, factors});
      std::istringstream chain(problem.chain);
      std::string result;
      for (std::string line; std::getline(chain, line);) {  // x * y: sums. result
        std::istringstream parts(line);
        std::string x, star, y;
        parts >> x >> star >> y;
        y.pop_back();
        if (!result.empty()) {
          EXPECT_EQ(x, result);
        }
        result = line.substr(line.rfind(' ') + 1);
        EXPECT_EQ(compose(permutation(n, x), permutation(n, y)), permutation(n, result)) << line;
        std::string sums = line.substr(line.find(": ") + 2);
        int a = 0, b = 0, c = 0;
        for (char op = 0; std::sscanf(sums.c_str(), "%d %c %d = %d", &a, &op, &b, &c) == 4;
             sums.erase(0, sums.find(". ") + 2)) {
          EXPECT_EQ(op == '+' ? a + b : a - b, c) << line;
        }
        EXPECT_EQ(sums, result) << line;
      }
      EXPECT_EQ(result, problem.answer);
    }
  }
  for (const auto& size : sizes[1]) EXPECT_FALSE(sizes[0].contains(size));
}

TEST(Dihedral, ToleratesShortForms) {
  const Family& family = *find_family("dihedral");
  EXPECT_TRUE(family.check("dihedral 5 r3s r2s", "Answer: r")->correct);
  EXPECT_TRUE(family.check("dihedral 5 r3s r2s", "Answer: R^1")->correct);
  EXPECT_TRUE(family.check("dihedral 5 r3s r3", "Answer: s")->correct);
  EXPECT_TRUE(family.check("dihedral 5 r3s r3s", "Answer: 1.")->correct);
  EXPECT_TRUE(family.check("dihedral 5 r3s r1", "Answer: r^2 s")->correct);
  EXPECT_FALSE(family.check("dihedral 5 r3s r1", "Answer: r2")->correct);
  EXPECT_FALSE(family.check("dihedral 5 r3s r1", "Answer: r7s")->correct);
  EXPECT_FALSE(family.check("dihedral 5 r3s q1", "Answer: r2"));
  EXPECT_FALSE(family.check("dihedral 5", "Answer: r2"));
}

}  // namespace
}  // namespace retort::symbolic
