// Reading of small files: configuration, kubeconfig, certificates, tokens. What is named there may be anything.
//
// Threading: safe for concurrent use.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>

namespace muster {

// RETURNS: the whole content of a regular file of at most `bytes_max` bytes.
// ON FAILURE: NotFound if there is none, else InvalidArgument; both name the file.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t bytes_max);

}  // namespace muster
