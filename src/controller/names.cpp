#include "muster/controller/names.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "muster/core/hash.h"

namespace muster::controller {
namespace {

constexpr size_t kNameMax = 253;
constexpr size_t kHashDigits = 5;
constexpr size_t kLabelMax = 63;

bool IsLowerAlnum(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'z'); }
bool IsAlnum(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

}  // namespace

std::string WorkloadName(std::string_view kind, std::string_view group, std::string_view owner_name,
                         std::string_view owner_uid, std::string_view slice) {
  std::string prefix = absl::StrCat(absl::AsciiStrToLower(std::string(kind)), "-", std::string(owner_name));
  if (prefix.size() > kNameMax - kHashDigits - 1) prefix.resize(kNameMax - kHashDigits - 1);
  std::string hashed = absl::StrCat(std::string(kind), "\n", std::string(group), "\n", std::string(owner_name), "\n",
                                    std::string(owner_uid));
  if (!slice.empty()) hashed += absl::StrCat("\n", std::string(slice));
  const std::string digest = Sha1Hex(hashed);
  return absl::StrCat(prefix, "-", digest.substr(0, kHashDigits));
}

bool IsDnsLabel(std::string_view text) {
  if (text.empty() || text.size() > kLabelMax) return false;
  if (!IsLowerAlnum(text.front()) || !IsLowerAlnum(text.back())) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return IsLowerAlnum(c) || c == '-'; });
}

bool IsLabelValue(std::string_view text) {
  if (text.empty()) return true;
  if (text.size() > kLabelMax || !IsAlnum(text.front()) || !IsAlnum(text.back())) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return IsAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

}  // namespace muster::controller
