// What kind of limit keeps a request out.
//
// Source: kueue_semantics 5.1.
// Threading: values.
#pragma once

#include <cstdint>

namespace muster::quota {

enum class Bound : uint8_t {
  kQuota,           // all quota that can be reached is used, or too small
  kBorrowingLimit,  // more may not be borrowed
  kLendingLimit,    // others have enough, and do not lend it
};

}  // namespace muster::quota
