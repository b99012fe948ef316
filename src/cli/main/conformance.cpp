// muster-conformance [--trace] FILE...: compares the engine with recorded decisions of the reference.
#include "conformance.h"

#include <cstdio>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  std::vector<std::string> files(argv + 1, argv + argc);
  const bool trace = !files.empty() && files.front() == "--trace";
  if (trace) files.erase(files.begin());
  if (files.empty() || files.front() == "-h" || files.front() == "--help") {
    std::fprintf(stderr,
                 "usage: muster-conformance [--trace] FILE...\n"
                 "Each FILE has one recorded case a line; - is standard input (zcat cases.gz | muster-conformance -).\n"
                 "--trace also prints what each pass of a differing case decided.\n");
    return files.empty() ? 2 : 0;
  }
  return muster::cli::RunConformance(files, trace);
}
