// A file of the tree as the rules see it.
//
// Threading: values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::tidy {

struct SourceFile {
  std::string path;                // from the tree's root
  std::vector<std::string> lines;  // as they are
  std::vector<std::string> code;   // C++ only: comments and the insides of literals blanked out
  std::vector<std::string> notes;  // C++ only: the comments alone
};

SourceFile MakeFile(std::string path, std::string_view text);

// The tree's files: those git knows, and new ones it does not ignore.
std::vector<SourceFile> ReadTree(const std::string& root);

bool HasExtension(const SourceFile& file, std::string_view extension);
// `path` lies in one of these folders (or is one of these files).
bool IsUnder(const SourceFile& file, const std::vector<std::string_view>& folders);

}  // namespace muster::tidy
