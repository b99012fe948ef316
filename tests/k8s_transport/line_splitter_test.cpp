#include "line_splitter.h"

#include <absl/strings/str_split.h>
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace muster::k8s {
namespace {

TEST_CASE("LineSplitter: however a text is cut, the lines are the same") {
  // Texts of few letters, so that newlines are frequent and meet the cuts.
  CHECK(rc::check([](const std::vector<std::string>& parts_of_any) {
    std::vector<std::string> parts;
    for (const std::string& part : parts_of_any) {
      std::string few;
      for (const char c : part) few += "a\nb\n"[static_cast<unsigned char>(c) % 4];
      parts.push_back(few);
    }
    LineSplitter splitter(1 << 20);
    std::string lines;
    std::string whole;
    for (const std::string& part : parts) {
      RC_ASSERT(splitter.Feed(part, &lines));
      whole += part;
    }
    const size_t end = whole.rfind('\n') + 1;  // npos + 1 == 0: no line
    RC_ASSERT(lines == whole.substr(0, end));
    RC_ASSERT(splitter.within_line() == (end != whole.size()));
  }));
}

TEST_CASE("LineSplitter: the limit is of the line without its newline, over all its parts") {
  std::string lines;
  LineSplitter fits(3);
  CHECK(fits.Feed("ab", &lines));
  CHECK(fits.Feed("c", &lines));
  CHECK(fits.Feed("\nabc\nab", &lines));
  CHECK(lines == "abc\nabc\n");
  CHECK(fits.within_line());
  CHECK_FALSE(fits.Feed("cd", &lines));

  LineSplitter longer(3);
  lines.clear();
  CHECK_FALSE(longer.Feed("a\nabcd\nb\n", &lines));
  CHECK(lines == "a\n");  // what came before the long line stands
}

}  // namespace
}  // namespace muster::k8s
