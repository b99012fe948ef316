// Rules for single values of the configuration, as the API server has them for names and labels.
//
// Threading: pure functions. Each RETURNS what is wrong with the value, or an empty text.
#pragma once

#include <string>
#include <string_view>

#include "yaml_document.h"

namespace muster::cli {

// "example.com/name" or "name" (k8s.io/apimachinery IsQualifiedName).
std::string CheckQualifiedName(std::string_view text);
std::string CheckLabelValue(std::string_view text);
// RFC 1123: lower-case letters, digits and '-', at most 63.
std::string CheckDnsLabel(std::string_view text);
// DNS labels joined by '.', at most 253.
std::string CheckDnsSubdomain(std::string_view text);
// As the API server knows users: "system:serviceaccount:NAMESPACE:NAME".
std::string CheckUserName(std::string_view text);
// The kind of an object: "JobSet".
std::string CheckKind(std::string_view text);
// One path segment of a URL.
std::string CheckEndpointName(std::string_view text);

bool LooksLikeNumber(std::string_view text);
bool LooksLikeBool(std::string_view text);
// At most 18 digits.
bool ParseInteger(std::string_view text, int64_t* out);
// Decimal, without exponents, infinities or hexadecimal.
bool ParseDecimal(std::string_view text, double* out);

// One line of at most `bytes_max` bytes, for messages.
std::string OneLine(std::string_view text, size_t bytes_max);
// For messages: one line, at most 60 bytes, in quotes where `node` is text.
std::string ShowValue(const YamlNode& node);
// The candidate nearest to `text`; empty where none is near.
std::string NearestName(std::string_view text, const std::vector<std::string_view>& candidates);

}  // namespace muster::cli
