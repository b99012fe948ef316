// A sequence of requests that is sent to two API servers, and the answers in a form in which they can be compared:
// without what is drawn at random or taken from the clock.
//
// Threading: values and functions.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "world.h"

namespace muster::scenarios {

struct Step {
  std::string title;
  std::string method;
  std::string target;
  // May hold ${uid:NAME}, ${rv:NAME} and ${old:NAME}: uid, resourceVersion, and the one before it, of what was
  // answered last about the object of that name. So may the target.
  std::string body = {};
  std::string_view type = kJson;
};

// The answers to the steps, one after the other.
class ScriptRun {
 public:
  explicit ScriptRun(Api* api) : api_(api) {}

  Json Run(const Step& step);
  // An object, list or Status as it can be compared.
  Json Normalized(const Json& body);

 private:
  struct Known {
    std::string uid;
    std::string version;
    std::string old_version;
  };

  std::string Filled(std::string text) const;
  Json NormalizedObject(const Json& object);
  Json NormalizedStatus(const Json& status);
  void ReplaceMadeUp(Json* value) const;

  Api* api_;
  std::map<std::string, Known> known_;          // by name
  std::map<std::string, std::string> made_up_;  // what stands for each uid and name that a server drew
};

}  // namespace muster::scenarios
