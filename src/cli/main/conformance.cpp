// muster-conformance [--property] [--machines] [--trace] FILE...: compares the engine with recorded decisions of the
// reference.
#include "conformance.h"

#include <cstdio>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  std::vector<std::string> files(argv + 1, argv + argc);
  muster::cli::ConformanceMode mode;
  bool trace = false;
  for (; !files.empty() && files.front().starts_with("--") && files.front() != "--help"; files.erase(files.begin())) {
    bool* const option = files.front() == "--property"   ? &mode.property
                         : files.front() == "--machines" ? &mode.machines
                         : files.front() == "--trace"    ? &trace
                                                         : nullptr;
    if (option != nullptr) {
      *option = true;
      continue;
    }
    std::fprintf(stderr, "unknown option %s\n", files.front().c_str());
    return 2;
  }
  if (files.empty() || files.front() == "-h" || files.front() == "--help") {
    std::fprintf(stderr,
                 "usage: muster-conformance [--property] [--machines] [--trace] FILE...\n"
                 "Each FILE has one recorded case a line; - is standard input (zcat cases.gz | muster-conformance -).\n"
                 "--property does not compare: each step must come to rest, evict nobody twice for one preemptor, and\n"
                 "leave nobody waiting who fits.\n"
                 "--machines asks known machines, too: each flavor has one that has room for all.\n"
                 "--trace also prints what each pass of a differing case decided.\n");
    return files.empty() ? 2 : 0;
  }
  return muster::cli::RunConformance(files, mode, trace);
}
