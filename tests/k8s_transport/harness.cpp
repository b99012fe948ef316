#include "harness.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "muster/core/check.h"

namespace muster::testing {

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "muster_transport_XXXXXX").string();
  MUSTER_CHECK(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::Write(const std::string& name, const std::string& content) const {
  const std::string next = Path(name + ".next");
  {
    std::ofstream out(next, std::ios::binary);
    out << content;
    MUSTER_CHECK(out.good());
  }
  std::filesystem::rename(next, Path(name));
  return Path(name);
}

}  // namespace muster::testing
