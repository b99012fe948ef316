// The reading half of the store: lists in pages, history, and how objects look from outside.
#include <absl/strings/numbers.h>

#include <algorithm>
#include <utility>

#include "muster/core/check.h"
#include "muster/core/hash.h"
#include "muster/sim/store.h"
#include "selectors.h"
#include "text.h"

namespace muster::sim {
namespace {

constexpr std::string_view kContinueExpired =
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list.";

// A continue token: the version being listed (-1: whatever is newest) and the last key delivered.
struct Token {
  int64_t version = 0;
  std::string after;
};

std::string Encode(const Token& token) {
  std::string text = Base64Encode(Dump({{"v", "meta.k8s.io/v1"}, {"rv", token.version}, {"start", token.after}}));
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  text.erase(std::ranges::find(text, '='), text.end());
  return text;
}

std::optional<Token> Decode(std::string text) {
  std::ranges::replace(text, '-', '+');
  std::ranges::replace(text, '_', '/');
  while (text.size() % 4 != 0) text += '=';
  std::string decoded;
  if (!Base64Decode(text, &decoded)) return std::nullopt;
  const std::optional<Json> json = ParseJson(decoded);
  if (!json.has_value() || Text(Get(*json, "v")) != "meta.k8s.io/v1") return std::nullopt;
  return Token{Number(Get(*json, "rv")), Text(Get(*json, "start"))};
}

// RETURNS: nothing where the options make sense together.
std::optional<Answer> CheckMatch(const ListOptions& options) {
  Kind named;
  named.group = "meta.k8s.io";
  named.kind = "ListOptions";
  const std::string& match = options.resource_version_match;
  const auto forbidden = [&](std::string why) { return Invalid(named, "", {Forbidden("resourceVersionMatch", why)}); };
  if (!match.empty() && options.resource_version.empty()) {
    return forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided");
  }
  if (match == "Exact" && options.resource_version == "0") {
    return forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
  }
  return std::nullopt;
}

Answer TooLarge(int64_t wanted, int64_t present) {
  return Failure(504, "Timeout", Concat("Timeout: Too large resource version: ", wanted, ", current: ", present),
                 {{"causes", {{{"reason", "ResourceVersionTooLarge"}, {"message", "Too large resource version"}}}},
                  {"retryAfterSeconds", 1}});
}

}  // namespace

Json SimStore::Render(const Kind& kind, const std::string& version, const Json& object, bool metadata_only) {
  if (metadata_only) {
    return {{"apiVersion", "meta.k8s.io/v1"}, {"kind", "PartialObjectMetadata"}, {"metadata", object["metadata"]}};
  }
  Json shown = object;
  shown["apiVersion"] = kind.ApiVersion(version);
  shown["kind"] = kind.kind;
  return shown;
}

Answer SimStore::List(const Target& target, const ListOptions& options) const {
  const auto selector = Selector::Parse(*target.kind, options.label_selector, options.field_selector);
  if (!selector.ok()) return BadRequest(std::string(selector.status().message()));
  if (auto refused = CheckMatch(options)) return *refused;
  Token token;
  token.version = version_;
  if (!options.continue_token.empty()) {
    const std::optional<Token> given = Decode(options.continue_token);
    if (!given.has_value()) return BadRequest("invalid continue token: continue key is not valid");
    token = *given;
    if (token.version < 0) token.version = version_;
    if (IsCompacted(token.version)) {
      Answer expired = Expired(std::string(kContinueExpired));
      expired.body["metadata"]["continue"] = Encode({-1, token.after});
      return expired;
    }
  } else if (!options.resource_version.empty() && options.resource_version != "0") {
    int64_t wanted = 0;
    if (!absl::SimpleAtoi(options.resource_version, &wanted)) {
      return BadRequest(
          Concat("invalid resource version: resourceVersion: Invalid value: \"", options.resource_version, "\""));
    }
    if (wanted > version_) return TooLarge(wanted, version_);
    if (options.resource_version_match == "Exact") {
      if (IsCompacted(wanted)) return Expired(Concat("The provided resource version is too old: ", wanted));
      token.version = wanted;
    }
  }

  const Table table = SnapshotAt(target.kind, token.version);
  const std::string prefix = target.kind->namespaced && !target.ns.empty() ? target.ns + "/" : "";
  Json items = Json::array();
  int64_t left = 0;
  for (auto it = table.upper_bound(token.after); it != table.end(); ++it) {
    if (!it->first.starts_with(prefix) || !selector->Matches(*it->second)) continue;
    if (options.limit > 0 && static_cast<int64_t>(items.size()) == options.limit) {
      ++left;
      continue;
    }
    Json item = Render(*target.kind, target.version, *it->second, options.metadata_only);
    if (!target.kind->custom && !options.metadata_only) {  // typed lists do not repeat the type in each item
      item.erase("apiVersion");
      item.erase("kind");
    }
    items.push_back(std::move(item));
    if (left == 0) token.after = it->first;
  }
  Json meta = {{"resourceVersion", std::to_string(token.version)}};
  if (left > 0) {
    meta["continue"] = Encode(token);
    if (selector->empty()) meta["remainingItemCount"] = left;
  }
  return {200,
          {{"apiVersion", options.metadata_only ? "meta.k8s.io/v1" : target.kind->ApiVersion(target.version)},
           {"kind", options.metadata_only ? "PartialObjectMetadataList" : target.kind->kind + "List"},
           {"metadata", std::move(meta)},
           {"items", std::move(items)}},
          std::nullopt};
}

SimStore::Table SimStore::SnapshotAt(const Kind* kind, int64_t version) const {
  MUSTER_CHECK(!IsCompacted(version));
  Table table = TableOf(kind);
  for (auto change = history_.rbegin(); change != history_.rend() && change->version > version; ++change) {
    if (change->kind != kind) continue;
    const Json& meta = Get(*change->object, "metadata");
    const std::string name = Text(Get(meta, "name"));
    const std::string key = kind->namespaced ? Concat(Text(Get(meta, "namespace")), "/", name) : name;
    if (change->previous == nullptr) {
      table.erase(key);
    } else {
      table[key] = change->previous;
    }
  }
  return table;
}

std::vector<Change> SimStore::ChangesSince(const Kind* kind, int64_t version) const {
  MUSTER_CHECK(!IsCompacted(version));
  const auto first = std::ranges::upper_bound(history_, version, {}, &Change::version);
  std::vector<Change> changes;
  std::copy_if(first, history_.end(), std::back_inserter(changes),
               [kind](const Change& change) { return change.kind == kind; });
  return changes;
}

void SimStore::Compact(int64_t version) {
  compacted_ = std::max(compacted_, std::min(version, version_));
  while (!history_.empty() && history_.front().version <= compacted_) history_.pop_front();
}

uint64_t SimStore::StateHash() const {
  muster::StateHash hash;
  for (const auto& kind : kinds_) {
    for (const auto& [key, object] : TableOf(kind.get())) {
      hash.Add(kind->Qualified()).Add(key).Add(Dump(*object));
    }
  }
  return hash.Add(version_).value();
}

}  // namespace muster::sim
