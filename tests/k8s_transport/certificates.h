// Certificates made on the spot: an authority, and what it signs.
#pragma once

#include <string>

namespace muster::testing {

struct Certificate {
  std::string pem;
  std::string key_pem;
};

// A root that may sign.
Certificate MakeAuthority(const std::string& common_name);

struct Wanted {
  std::string common_name;
  std::string alternative_names;  // OpenSSL's notation: "DNS:a.example,IP:127.0.0.1"; empty: none
  bool expired = false;
};
Certificate Issue(const Certificate& authority, const Wanted& wanted);

}  // namespace muster::testing
