// JSON Patch (RFC 6902) and merge patch (RFC 7386) exactly as kube-apiserver applies them, which is not
// exactly as the RFCs say. Where they differ (tried on 1.36.3, gopkg.in/evanphx/json-patch.v4):
//   - `replace` of a member that is not there adds it (of the parent: fails);
//   - `test` of an absent member as null passes, if its parent exists;
//   - `test` compares strings by their encoded text, the stored side being encoded as Go does: < > & and
//     U+2028/9 as \u003c and so on. A client that sends them plain fails the test;
//   - negative array indices count from the end;
//   - adding or removing the whole document fails; `replace` and `test` of it work.
//
// Threading: values.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <string_view>

#include "muster/sim/json.h"

namespace muster::sim {

// Applies `patch`, the text of an array of operations, to `document`.
// ON FAILURE: InvalidArgument where `patch` is not such an array (HTTP 400), FailedPrecondition where an
// operation does not apply or a test fails (HTTP 422); `document` is then as before.
absl::Status ApplyJsonPatch(std::string_view patch, Json* document);

// REQUIRES: `patch` is an object.
void ApplyMergePatch(const Json& patch, Json* document);

}  // namespace muster::sim
