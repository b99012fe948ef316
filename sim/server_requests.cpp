// From HTTP to the verbs of the store: paths, queries, bodies, discovery.
#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "muster/sim/server.h"
#include "text.h"

namespace muster::sim {
namespace {

constexpr const char* kSelfSubjectReviews = "selfsubjectreviews";
constexpr const char* kSelfSubjectAccessReviews = "selfsubjectaccessreviews";

std::string PercentDecode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr == text.data() + i + 3) {
      out += static_cast<char>(value);
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::map<std::string, std::string> ParseQuery(std::string_view text) {
  std::map<std::string, std::string> query;
  if (text.empty()) return query;
  for (const std::string& pair : Split(text, '&')) {
    const size_t equals = pair.find('=');
    query[PercentDecode(pair.substr(0, equals))] =
        equals == std::string::npos ? "" : PercentDecode(std::string_view(pair).substr(equals + 1));
  }
  return query;
}

// What the request would be that a SelfSubjectAccessReview asks about; of a kind that is unknown there is no target.
ApiRequest AskedAbout(const std::string& user, const Json& review, const SimStore& store) {
  const Json& about = At(review, "spec", "resourceAttributes");
  ApiRequest asked;
  asked.user = user;
  asked.verb = Text(Get(about, "verb"));
  asked.target = {store.FindKind(Text(Get(about, "group")), Text(Get(about, "resource"))), "",
                  Text(Get(about, "namespace")), Text(Get(about, "name")), Text(Get(about, "subresource"))};
  return asked;
}

// The parts of a resource's path.
struct PathParts {
  std::string group;
  std::string version;
  std::string ns;
  std::string plural;
  std::string name;
  std::string subresource;
};

// RETURNS: nothing where the path is not of a resource.
std::optional<PathParts> ParsePath(const std::string& path) {
  std::vector<std::string> parts;
  for (const std::string& part : Split(path, '/')) {
    if (!part.empty()) parts.push_back(PercentDecode(part));
  }
  PathParts result;
  size_t at = 0;
  if (parts.size() >= 3 && parts[0] == "api") {
    result.version = parts[1];
    at = 2;
  } else if (parts.size() >= 4 && parts[0] == "apis") {
    result.group = parts[1];
    result.version = parts[2];
    at = 3;
  } else {
    return std::nullopt;
  }
  const bool inside_namespace =
      parts[at] == "namespaces" && parts.size() > at + 2 && parts[at + 2] != "status" && parts[at + 2] != "finalize";
  if (inside_namespace) {
    result.ns = parts[at + 1];
    at += 2;
  }
  result.plural = parts[at];
  if (parts.size() > at + 1) result.name = parts[at + 1];
  if (parts.size() > at + 2) result.subresource = parts[at + 2];
  if (parts.size() > at + 3) return std::nullopt;
  return result;
}

std::string VerbOf(k8s::Method method, const PathParts& parts, bool watch) {
  const bool collection = parts.name.empty();
  switch (method) {
    case k8s::Method::kGet:
      return !collection ? "get" : watch ? "watch" : "list";
    case k8s::Method::kPost:
      return collection ? "create" : "";
    case k8s::Method::kPut:
      return collection ? "" : "update";
    case k8s::Method::kPatch:
      return collection ? "" : "patch";
    case k8s::Method::kDelete:
      return collection ? "deletecollection" : "delete";
  }
  return "";
}

ListOptions ListOptionsOf(const ApiRequest& request) {
  ListOptions options;
  options.label_selector = request.Query("labelSelector");
  options.field_selector = request.Query("fieldSelector");
  options.resource_version = request.Query("resourceVersion");
  options.resource_version_match = request.Query("resourceVersionMatch");
  options.continue_token = request.Query("continue");
  const std::string limit = request.Query("limit");
  std::from_chars(limit.data(), limit.data() + limit.size(), options.limit);
  options.metadata_only = request.metadata_only;
  return options;
}

// From the body, or from the query.
DeleteOptions DeleteOptionsOf(const ApiRequest& request) {
  DeleteOptions options;
  options.propagation = request.Query("propagationPolicy");
  const std::optional<Json> body = ParseJson(request.body);
  if (!body.has_value()) return options;
  if (const Json& policy = Get(*body, "propagationPolicy"); policy.is_string()) options.propagation = Text(policy);
  options.uid = Text(At(*body, "preconditions", "uid"));
  options.resource_version = Text(At(*body, "preconditions", "resourceVersion"));
  return options;
}

Answer UnsupportedMediaType() {
  return Failure(415, "UnsupportedMediaType",
                 "the body of the request was in an unknown format - accepted media types include: "
                 "application/json-patch+json, application/merge-patch+json");
}

}  // namespace

std::variant<ApiRequest, SimServer::Reply> SimServer::Parse(const std::string& user,
                                                            const k8s::HttpRequest& http) const {
  ApiRequest request;
  request.user = user;
  request.query = ParseQuery(http.query);
  request.body = http.body;
  request.metadata_only = http.accept.find("as=PartialObjectMetadata") != std::string::npos;
  const std::optional<PathParts> parts = ParsePath(http.path);
  // /version and the like, and what is answered and not stored.
  if (!parts.has_value() || parts->plural == kSelfSubjectReviews || parts->plural == kSelfSubjectAccessReviews) {
    return request;
  }
  const auto reply = [](const Answer& answer) { return Reply{answer.code, Dump(answer.body), std::nullopt}; };
  const Kind* kind = store_->FindKind(parts->group, parts->plural);
  const bool known_group =
      std::ranges::any_of(store_->kinds(), [&](const auto& k) { return k->group == parts->group; });
  if (!known_group) return Reply{404, "404 page not found\n", std::nullopt};
  const bool subresource_ok =
      parts->subresource.empty() || (parts->subresource == "status" && kind != nullptr && kind->status_subresource);
  if (kind == nullptr || !kind->Serves(parts->version) || (!subresource_ok && !kind->custom) ||
      (!kind->namespaced && !parts->ns.empty())) {
    return reply(NoSuchResource());
  }
  if (!subresource_ok) return reply(NotFound(*kind, parts->name));
  const std::string watch = request.Query("watch");
  request.verb = VerbOf(http.method, *parts, watch == "1" || watch == "true");
  const bool misplaced = kind->namespaced && parts->ns.empty() && request.verb != "list" && request.verb != "watch";
  if (request.verb.empty() || misplaced || (!parts->subresource.empty() && request.verb == "delete")) {
    return reply(Failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource",
                         Json::object()));
  }
  request.target = {kind, parts->version, parts->ns, parts->name, parts->subresource};
  return request;
}

SimServer::Reply SimServer::Serve(const ApiRequest& request, const k8s::HttpRequest& http) {
  if (request.verb.empty()) return ServeUnstored(request, http);
  const Answer answer = Dispatch(request, http);
  if (request.IsWrite()) {
    writes_.push_back({executor_->Mono(), request.user, request.verb, request.Resource(), request.target.ns,
                       request.target.name, request.body, answer.code});
    if (request.verb == "create") writes_.back().name = Text(At(answer.body, "metadata", "name"));
  }
  return {answer.code, Dump(answer.body), answer.retry_after};
}

std::optional<Answer> SimServer::CheckAccess(const ApiRequest& request) const {
  if (!authorizer_ || authorizer_(request)) return std::nullopt;
  const Target& target = request.target;
  std::string why = Concat("User \"", request.user, "\" cannot ", request.verb, " resource \"", request.Resource(),
                           "\" in API group \"", target.kind->group, "\" ");
  why += target.ns.empty() ? std::string("at the cluster scope") : Concat("in the namespace \"", target.ns, "\"");
  return Forbidden(*target.kind, target.name, why);
}

Answer SimServer::Dispatch(const ApiRequest& request, const k8s::HttpRequest& http) {
  const Target& target = request.target;
  if (auto refused = CheckAccess(request)) return *refused;
  if (!request.Query("dryRun").empty()) return BadRequest("dryRun is not simulated");
  if (const std::string limit = request.Query("limit"); limit.find_first_not_of("-0123456789") != std::string::npos) {
    return BadRequest(Concat("strconv.ParseInt: parsing \"", limit, "\": invalid syntax"));
  }
  if (request.verb == "get") return store_->Read(target, request.metadata_only);
  if (request.verb == "list") return store_->List(target, ListOptionsOf(request));
  if (request.verb == "watch") return BadRequest("a watch must be made as a stream");
  if (request.verb == "delete") return store_->Delete(request.user, target, DeleteOptionsOf(request));
  if (request.verb == "deletecollection") {
    return store_->DeleteCollection(request.user, target, ListOptionsOf(request), DeleteOptionsOf(request));
  }
  if (request.verb == "patch") {
    if (http.content_type == "application/json-patch+json") {
      return store_->Patch(request.user, target, PatchKind::kJsonPatch, request.body);
    }
    if (http.content_type == "application/merge-patch+json") {
      return store_->Patch(request.user, target, PatchKind::kMergePatch, request.body);
    }
    return UnsupportedMediaType();
  }
  if (!http.content_type.empty() && !http.content_type.starts_with("application/json")) return UnsupportedMediaType();
  std::optional<Json> object = ParseJson(request.body);
  if (!object.has_value()) return BadRequest("couldn't get version/kind; json parse error");
  return request.verb == "create" ? store_->Create(request.user, target, *std::move(object))
                                  : store_->Update(request.user, target, *std::move(object));
}

SimServer::Reply SimServer::ServeUnstored(const ApiRequest& request, const k8s::HttpRequest& http) const {
  const std::string& path = http.path;
  if (path == Concat("/apis/authentication.k8s.io/v1/", kSelfSubjectReviews)) {
    return {201,
            Dump({{"kind", "SelfSubjectReview"},
                  {"apiVersion", "authentication.k8s.io/v1"},
                  {"status", {{"userInfo", {{"username", request.user}}}}}}),
            std::nullopt};
  }
  if (path == "/readyz" || path == "/livez" || path == "/healthz") return {200, "ok", std::nullopt};
  if (path == "/version") {
    const std::string minor = std::to_string(options_.minor_version);
    return {200, Dump({{"major", "1"}, {"minor", minor}, {"gitVersion", Concat("v1.", minor, ".3")}}), std::nullopt};
  }
  if (path == Concat("/apis/authorization.k8s.io/v1/", kSelfSubjectAccessReviews)) {
    const ApiRequest asked = AskedAbout(request.user, ParseJson(http.body).value_or(Json::object()), *store_);
    const bool allowed = !authorizer_ || asked.target.kind == nullptr || authorizer_(asked);
    return {201, Dump({{"kind", "SelfSubjectAccessReview"}, {"status", {{"allowed", allowed}}}}), std::nullopt};
  }
  const std::vector<std::string> parts = Split(path, '/');  // "", "apis", group, version
  std::string group;
  std::string version;
  if (parts.size() == 3 && parts[1] == "api") version = parts[2];
  if (parts.size() == 4 && parts[1] == "apis") {
    group = parts[2];
    version = parts[3];
  }
  Json resources = Json::array();
  for (const auto& kind : store_->kinds()) {
    if (version.empty() || kind->group != group || !kind->Serves(version)) continue;
    if (!options_.mutating_policies && kind->kind.starts_with("MutatingAdmissionPolicy")) continue;
    resources.push_back({{"name", kind->plural}, {"kind", kind->kind}, {"namespaced", kind->namespaced}});
    if (kind->status_subresource) {
      resources.push_back({{"name", kind->plural + "/status"}, {"kind", kind->kind}, {"namespaced", kind->namespaced}});
    }
  }
  if (resources.empty()) return {404, "404 page not found\n", std::nullopt};
  return {200,
          Dump({{"kind", "APIResourceList"},
                {"apiVersion", "v1"},
                {"groupVersion", group.empty() ? version : Concat(group, "/", version)},
                {"resources", std::move(resources)}}),
          std::nullopt};
}

}  // namespace muster::sim
