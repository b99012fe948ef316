#include "source_file.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace muster::tidy {
namespace {

std::vector<std::string> SplitLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool IsWord(char c) { return isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Splits C++ into code and comments, each with the other blanked out, so that lines and columns stay.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text), code_(text), notes_(text.size(), ' ') {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') notes_[i] = '\n';
    }
    while (at_ < text_.size()) Step();
  }
  const std::string& code() const { return code_; }
  const std::string& notes() const { return notes_; }

 private:
  void Step() {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("//")) {
      Comment(std::min(rest.find('\n'), rest.size()));
    } else if (rest.starts_with("/*")) {
      Comment(End(rest.find("*/", 2), 2, rest));
    } else if (rest.starts_with("R\"") && (at_ == 0 || !IsWord(text_[at_ - 1]))) {
      std::string close(rest.substr(2, rest.find('(') - 2));
      close.insert(0, 1, ')').push_back('"');
      Literal(End(rest.find(close), close.size(), rest));
    } else if (rest[0] == '"' || (rest[0] == '\'' && (at_ == 0 || !IsWord(text_[at_ - 1])))) {
      Literal(Quoted(rest));
    } else {
      ++at_;
    }
  }

  static size_t End(size_t found, size_t length, std::string_view rest) {
    return found == std::string_view::npos ? rest.size() : found + length;
  }

  static size_t Quoted(std::string_view rest) {
    for (size_t i = 1; i < rest.size() && rest[i] != '\n'; ++i) {
      if (rest[i] == '\\') {
        ++i;
      } else if (rest[i] == rest[0]) {
        return i + 1;
      }
    }
    return 1;
  }

  void Comment(size_t length) {
    for (const size_t end = at_ + length; at_ < end; ++at_) {
      notes_[at_] = text_[at_];
      if (text_[at_] != '\n') code_[at_] = ' ';
    }
  }

  void Literal(size_t length) {
    const size_t end = at_ + length;
    for (size_t i = at_ + 1; i + 1 < end; ++i) {
      if (text_[i] != '\n') code_[i] = ' ';
    }
    at_ = end;
  }

  std::string_view text_;
  std::string code_;
  std::string notes_;
  size_t at_ = 0;
};

}  // namespace

SourceFile MakeFile(std::string path, std::string_view text) {
  SourceFile file{std::move(path), SplitLines(text), {}, {}};
  if (HasExtension(file, ".h") || HasExtension(file, ".cpp")) {
    const Splitter split(text);
    file.code = SplitLines(split.code());
    file.notes = SplitLines(split.notes());
  }
  return file;
}

std::vector<SourceFile> ReadTree(const std::string& root) {
  std::vector<SourceFile> files;
  FILE* list = popen(("git -C '" + root + "' ls-files -z --cached --others --exclude-standard").c_str(), "r");
  if (list == nullptr) return files;
  std::string names;
  for (int c = fgetc(list); c != EOF; c = fgetc(list)) names += static_cast<char>(c);
  pclose(list);
  while (!names.empty()) {
    const std::string path = names.substr(0, names.find('\0'));
    names.erase(0, path.size() + 1);
    std::ifstream in(root + "/" + path, std::ios::binary);
    if (!in) continue;  // listed, but deleted in the work tree
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    files.push_back(MakeFile(path, text));
  }
  return files;
}

bool HasExtension(const SourceFile& file, std::string_view extension) { return file.path.ends_with(extension); }

bool IsUnder(const SourceFile& file, const std::vector<std::string_view>& folders) {
  return std::any_of(folders.begin(), folders.end(), [&](std::string_view folder) {
    return file.path.starts_with(folder) && (file.path.size() == folder.size() || file.path[folder.size()] == '/');
  });
}

}  // namespace muster::tidy
