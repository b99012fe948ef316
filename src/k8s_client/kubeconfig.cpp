#include "kubeconfig.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "http_address.h"
#include "http_credentials.h"
#include "muster/core/hash.h"
#include "muster/core/pem.h"
#include "muster/core/small_file.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"

namespace muster::k8s {
namespace {

constexpr size_t kFileBytesMax = 8 * 1024 * 1024;
constexpr const char* kExecV1 = "client.authentication.k8s.io/v1";
constexpr const char* kExecV1Beta1 = "client.authentication.k8s.io/v1beta1";
constexpr const char* kExecExtension = "client.authentication.k8s.io/exec";
constexpr size_t kExtensionBytesMax = 64 * 1024;
constexpr int kExtensionDepthMax = 32;

absl::Status Bad(const std::string& where, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", std::string(why)));
}

// The fields of one YAML map, each to be read once. Keeps the first error; Finish adds "unknown field" for
// what nobody read. yaml-cpp's operator[] is avoided: on a missing key it makes a node that throws later.
class Fields {
 public:
  Fields(const YAML::Node& node, std::string where) : where_(std::move(where)) {
    if (node.IsNull()) return;
    if (!node.IsMap()) {
      Fail("", "must be a map");
      return;
    }
    for (const auto& item : node) {
      if (!item.first.IsScalar()) {
        Fail("", "has a key that is not text");
      } else if (!fields_.emplace(item.first.Scalar(), item.second).second) {
        Fail(item.first.Scalar(), "is given twice");
      }
    }
  }

  // RETURNS: the field, or nothing where it is absent or null.
  std::optional<YAML::Node> Take(const std::string& name) {
    const auto it = fields_.find(name);
    if (it == fields_.end()) return std::nullopt;
    YAML::Node out = it->second;
    fields_.erase(it);
    if (out.IsNull()) return std::nullopt;
    return out;
  }
  std::string Text(const std::string& name) {
    const auto node = Take(name);
    if (!node) return {};
    if (!node->IsScalar()) Fail(name, "must be text");
    return node->IsScalar() ? node->Scalar() : std::string();
  }
  bool Flag(const std::string& name) {
    const std::string text = Text(name);
    if (!text.empty() && text != "true" && text != "false") Fail(name, "must be true or false");
    return text == "true";
  }
  std::string Base64(const std::string& name) {
    std::string out;
    if (!Base64Decode(Text(name), &out)) Fail(name, "is not base64");
    return out;
  }
  // A path, relative to `directory`.
  std::string Path(const std::string& name, const std::filesystem::path& directory) {
    const std::string text = Text(name);
    return text.empty() ? text : (directory / text).lexically_normal().string();
  }
  // The elements of a list; empty where it is absent.
  std::vector<YAML::Node> List(const std::string& name) {
    const auto node = Take(name);
    if (!node) return {};
    std::vector<YAML::Node> out;
    if (!node->IsSequence()) Fail(name, "must be a list");
    for (const auto& item : *node) {
      if (node->IsSequence()) out.emplace_back(item);
    }
    return out;
  }
  void Ignore(const std::string& name) { Take(name); }
  // Fails if the field is set, since ignoring it would mean something else than the file says.
  void Refuse(const std::string& name, std::string_view why) {
    if (Take(name)) Fail(name, why);
  }
  void Fail(const std::string& name, std::string_view why) {
    if (status_.ok()) status_ = Bad(name.empty() ? where_ : absl::StrCat(where_, ".", name), why);
  }
  const std::string& where() const { return where_; }
  absl::Status Finish() {
    if (!fields_.empty()) Fail(fields_.begin()->first, "is not a known field");
    return status_;
  }

 private:
  std::string where_;
  std::map<std::string, YAML::Node> fields_;
  absl::Status status_;
};

// A plain scalar that JSON has too.
bool IsJsonScalar(const std::string& text) {
  if (text.empty() || std::string_view("-0123456789tfn").find(text[0]) == std::string_view::npos) return false;
  JsonDocument document(absl::StrCat("[", text, "]"));
  return document.root().size() == 1 && document.Finish("").ok();
}

// A value of YAML as JSON: what is not in quotes and looks like a number or a truth value is one.
absl::Status WriteJson(const YAML::Node& node, int depth, std::string* out) {
  if (depth > kExtensionDepthMax) return absl::InvalidArgumentError("is nested too deeply");
  // Aliases can make much of little.
  if (out->size() > kExtensionBytesMax) return absl::InvalidArgumentError("is too long");
  const auto quoted = [](const std::string& text) {
    JsonWriter json;
    return json.String(text).Take();
  };
  if (node.IsMap() || node.IsSequence()) {
    const char* separator = "";
    out->append(node.IsMap() ? "{" : "[");
    for (const auto& item : node) {
      out->append(std::exchange(separator, ","));
      if (node.IsMap() && !item.first.IsScalar()) return absl::InvalidArgumentError("has a key that is not text");
      if (node.IsMap()) out->append(quoted(item.first.Scalar())).append(":");
      const YAML::Node value = node.IsMap() ? item.second : YAML::Node(item);
      if (const absl::Status status = WriteJson(value, depth + 1, out); !status.ok()) return status;
    }
    out->append(node.IsMap() ? "}" : "]");
    return absl::OkStatus();
  }
  const std::string text = node.IsScalar() ? node.Scalar() : "null";
  out->append(node.Tag() != "!" && IsJsonScalar(text) ? text : quoted(text));
  return absl::OkStatus();
}

// What the cluster has to say to exec plugins. RETURNS: JSON; empty where there is nothing.
absl::StatusOr<std::string> ReadExecConfig(const YAML::Node& extensions) {
  if (!extensions.IsSequence()) return std::string();
  for (const auto& entry : extensions) {
    // Others may hold anything.
    if (!entry.IsMap()) continue;
    Fields fields(YAML::Node(entry), "");
    if (fields.Text("name") != kExecExtension) continue;
    const auto value = fields.Take("extension");
    if (!value) return std::string();
    std::string out;
    if (const absl::Status status = WriteJson(*value, 0, &out); !status.ok()) return status;
    return out;
  }
  return std::string();
}

absl::StatusOr<KubeconfigCluster> ReadCluster(Fields fields, const std::filesystem::path& directory) {
  KubeconfigCluster out;
  out.server = fields.Text("server");
  out.tls_server_name = fields.Text("tls-server-name");
  out.insecure = fields.Flag("insecure-skip-tls-verify");
  out.ca_file = fields.Path("certificate-authority", directory);
  out.ca_pem = fields.Base64("certificate-authority-data");
  fields.Refuse("proxy-url", "proxies are not supported");
  fields.Ignore("disable-compression");  // answers are never asked for compressed
  if (const auto extensions = fields.Take("extensions")) {
    auto exec_config = ReadExecConfig(*extensions);
    if (!exec_config.ok()) fields.Fail("extensions", std::string(exec_config.status().message()));
    out.exec_config = exec_config.value_or("");
  }
  if (const auto status = fields.Finish(); !status.ok()) return status;
  return out;
}

absl::StatusOr<ExecPlugin> ReadExec(Fields fields, const std::filesystem::path& directory) {
  ExecPlugin out;
  out.api_version = fields.Text("apiVersion");
  const bool v1 = out.api_version == kExecV1;
  if (!v1 && out.api_version != kExecV1Beta1) {
    fields.Fail("apiVersion", absl::StrCat("must be ", kExecV1, " or ", kExecV1Beta1));
  }
  out.command = fields.Text("command");
  if (out.command.empty()) fields.Fail("command", "is missing");
  out.name = absl::StrCat("exec plugin ", out.command);
  // As in client-go: with a slash it is a path from where the file lies.
  if (out.command.find('/') != std::string::npos) {
    // Absolute, since a path may lose its slash, and then be looked for elsewhere.
    std::error_code failed;
    const std::filesystem::path path = std::filesystem::absolute(directory / out.command, failed);
    if (failed) fields.Fail("command", failed.message());
    out.command = path.lexically_normal().string();
  }
  for (const YAML::Node& arg : fields.List("args")) {
    if (!arg.IsScalar()) fields.Fail("args", "must be a list of texts");
    out.args.push_back(arg.IsScalar() ? arg.Scalar() : "");
  }
  for (const YAML::Node& entry : fields.List("env")) {
    Fields variable(entry, "");
    std::string name = variable.Text("name");
    std::string value = variable.Text("value");
    const bool fit = !name.empty() && name.find_first_of(std::string_view("=\0", 2)) == std::string::npos;
    if (!variable.Finish().ok() || !fit) fields.Fail("env", "must be a list of {name, value}");
    out.env.emplace_back(std::move(name), std::move(value));
  }
  out.install_hint = fields.Text("installHint");
  out.provide_cluster_info = fields.Flag("provideClusterInfo");
  const std::string mode = fields.Text("interactiveMode");
  if (mode == "Always") {
    fields.Fail("interactiveMode", "is Always: a plugin that asks on a terminal cannot be used by a service");
  } else if (mode.empty() ? v1 : mode != "Never" && mode != "IfAvailable") {
    fields.Fail("interactiveMode", "must be Never or IfAvailable");
  }
  if (const auto status = fields.Finish(); !status.ok()) return status;
  return out;
}

absl::StatusOr<KubeconfigUser> ReadUser(Fields fields, const std::filesystem::path& directory) {
  constexpr std::string_view kUse = "is not supported; use a client certificate, token, tokenFile or exec";
  constexpr std::string_view kImpersonation = "impersonation is not supported";
  KubeconfigUser out;
  fields.Refuse("auth-provider", kUse);
  fields.Refuse("username", kUse);
  fields.Refuse("password", kUse);
  for (const char* name : {"as", "as-uid", "as-groups", "as-user-extra"}) fields.Refuse(name, kImpersonation);
  out.client_cert_file = fields.Path("client-certificate", directory);
  out.client_cert_pem = fields.Base64("client-certificate-data");
  out.client_key_file = fields.Path("client-key", directory);
  out.client_key_pem = fields.Base64("client-key-data");
  out.token = fields.Text("token");
  if (!out.token.empty()) {
    if (const auto fit = CheckToken(out.token); !fit.ok()) fields.Fail("token", std::string(fit.message()));
  }
  out.token_file = fields.Path("tokenFile", directory);
  fields.Ignore("extensions");
  if (const auto exec = fields.Take("exec")) {
    auto plugin = ReadExec(Fields(*exec, fields.where() + ".exec"), directory);
    if (!plugin.ok()) return plugin.status();
    out.exec = *std::move(plugin);
    if (!(out.client_cert_file.empty() && out.client_cert_pem.empty() && out.token.empty() && out.token_file.empty())) {
      fields.Fail("exec", "cannot be given beside a client certificate or token");
    }
  }
  if (const auto status = fields.Finish(); !status.ok()) return status;
  return out;
}

absl::StatusOr<KubeconfigContext> ReadContext(Fields fields, const std::filesystem::path& /*directory*/) {
  KubeconfigContext out;
  out.cluster = fields.Text("cluster");
  out.user = fields.Text("user");
  out.ns = fields.Text("namespace");
  fields.Ignore("extensions");
  if (const auto status = fields.Finish(); !status.ok()) return status;
  return out;
}

// One of the lists: [{name: ..., <inner>: {...}}, ...].
template <typename T, typename Read>
absl::Status ReadEntries(Fields* top, const std::string& list, const std::string& inner, const std::string& file,
                         Read read, std::map<std::string, Kubeconfig::Entry<T>>* out) {
  const std::string where = absl::StrCat("kubeconfig ", file, ": ", list);
  const std::filesystem::path directory = std::filesystem::path(file).parent_path();
  const auto node = top->Take(list);
  if (!node) return absl::OkStatus();
  if (!node->IsSequence()) return Bad(where, "must be a list");
  int index = 0;
  for (const auto& item : *node) {
    Fields entry(item, absl::StrCat(where, "[", index++, "]"));
    const std::string name = entry.Text("name");
    const auto value = entry.Take(inner);
    if (name.empty()) entry.Fail("name", "is missing");
    if (const auto status = entry.Finish(); !status.ok()) return status;
    const std::string named = absl::StrCat(where, "[", name, "]");
    Fields fields(value.value_or(YAML::Node()), absl::StrCat(named, ".", inner));
    if (!out->emplace(name, Kubeconfig::Entry<T>{named, read(std::move(fields), directory)}).second) {
      return Bad(named, "is given twice");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Kubeconfig> ReadTop(const YAML::Node& node, const std::string& file) {
  const std::string where = absl::StrCat("kubeconfig ", file);
  if (!node.IsMap()) return Bad(where, "must be a map");
  Kubeconfig out;
  Fields top(node, where);
  if (const auto text = top.Text("apiVersion"); !text.empty() && text != "v1") top.Fail("apiVersion", "must be v1");
  if (const auto text = top.Text("kind"); !text.empty() && text != "Config") top.Fail("kind", "must be Config");
  out.current_context = top.Text("current-context");
  top.Ignore("preferences");
  top.Ignore("extensions");
  absl::Status status = ReadEntries<KubeconfigCluster>(&top, "clusters", "cluster", file, ReadCluster, &out.clusters);
  if (status.ok()) status = ReadEntries<KubeconfigUser>(&top, "users", "user", file, ReadUser, &out.users);
  if (status.ok())
    status = ReadEntries<KubeconfigContext>(&top, "contexts", "context", file, ReadContext, &out.contexts);
  if (status.ok()) status = top.Finish();
  if (!status.ok()) return status;
  return out;
}

// What `map` holds under `name`, or an error that says what it holds instead.
template <typename T>
absl::StatusOr<T> Find(const std::map<std::string, Kubeconfig::Entry<T>>& map, std::string_view kind,
                       const std::string& name, const std::string& where) {
  if (const auto it = map.find(name); it != map.end()) return it->second.value;
  std::vector<std::string> names;
  for (const auto& [known, entry] : map) names.push_back(known);
  return absl::NotFoundError(absl::StrCat(where, ": ", std::string(kind), " \"", name, "\" is not among them (",
                                          names.empty() ? "none" : absl::StrJoin(names, ", "), ")"));
}

// The data if given (it wins, as in client-go), else the file's content.
absl::StatusOr<std::string> DataOrFile(const std::string& data, const std::string& file, const std::string& where) {
  if (!data.empty() || file.empty()) return data;
  auto text = ReadSmallFile(file, kFileBytesMax);
  if (!text.ok()) return Bad(where, std::string(text.status().message()));
  return text;
}

absl::Status ResolveCluster(const KubeconfigCluster& cluster, const std::string& where, ConnectionConfig* out) {
  if (cluster.server.empty()) return Bad(absl::StrCat(where, ".cluster.server"), "is missing");
  if (const auto address = ParseServerUrl(cluster.server); !address.ok()) {
    return Bad(absl::StrCat(where, ".cluster.server"), std::string(address.status().message()));
  }
  const std::string ca_field =
      absl::StrCat(where, ".cluster.certificate-authority", cluster.ca_pem.empty() ? "" : "-data");
  auto ca = DataOrFile(cluster.ca_pem, cluster.ca_file, ca_field);
  if (!ca.ok()) return ca.status();
  if (cluster.insecure && !(cluster.ca_pem.empty() && cluster.ca_file.empty())) {
    return Bad(absl::StrCat(where, ".cluster.insecure-skip-tls-verify"), "contradicts a certificate authority");
  }
  if (!ca->empty() || !cluster.ca_file.empty()) {
    if (const auto parsed = ParseCertificates(*ca); !parsed.ok()) {
      return Bad(ca_field, std::string(parsed.status().message()));
    }
  }
  out->server = cluster.server;
  out->tls_server_name = cluster.tls_server_name;
  out->insecure = cluster.insecure;
  out->ca_pem = *std::move(ca);
  return absl::OkStatus();
}

absl::Status ResolveUser(const KubeconfigUser& user, const KubeconfigCluster& cluster, const std::string& where,
                         ConnectionConfig* out) {
  const std::string field = absl::StrCat(where, ".user");
  auto certificate =
      DataOrFile(user.client_cert_pem, user.client_cert_file, absl::StrCat(field, ".client-certificate"));
  if (!certificate.ok()) return certificate.status();
  auto key = DataOrFile(user.client_key_pem, user.client_key_file, absl::StrCat(field, ".client-key"));
  if (!key.ok()) return key.status();
  const bool has_certificate = !(user.client_cert_pem.empty() && user.client_cert_file.empty());
  const bool has_key = !(user.client_key_pem.empty() && user.client_key_file.empty());
  if (has_certificate && !has_key)
    return Bad(absl::StrCat(field, ".client-key"), "is missing beside client-certificate");
  if (has_key && !has_certificate)
    return Bad(absl::StrCat(field, ".client-certificate"), "is missing beside client-key");
  if (has_certificate) {
    if (const auto status = CheckKeyPair(*certificate, *key); !status.ok()) {
      return Bad(absl::StrCat(field, ".client-certificate"), std::string(status.message()));
    }
  }
  if (!user.token_file.empty()) {
    const auto token = ReadTokenFile(user.token_file);
    if (!token.ok()) return Bad(absl::StrCat(field, ".tokenFile"), std::string(token.status().message()));
  }
  out->client_cert_pem = *std::move(certificate);
  out->client_key_pem = *std::move(key);
  out->token = user.token;
  out->token_file = user.token_file;
  out->exec = user.exec;
  if (out->exec.has_value()) {
    absl::StrAppend(&out->exec->name, " (", where, ")");
    out->exec->cluster_config = cluster.exec_config;
  }
  return absl::OkStatus();
}

// The files that make up the configuration, in the order in which they win.
absl::StatusOr<std::vector<std::string>> FilesToRead(const std::string& path) {
  if (!path.empty()) return std::vector<std::string>{path};
  if (const char* list = std::getenv("KUBECONFIG"); list != nullptr && *list != '\0') {
    std::vector<std::string> out = absl::StrSplit(list, ':', absl::SkipEmpty());
    if (!out.empty()) return out;
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') {
    return absl::NotFoundError("kubeconfig: no file is given, and neither $KUBECONFIG nor $HOME is set");
  }
  return std::vector<std::string>{absl::StrCat(home, "/.kube/config")};
}

}  // namespace

void Kubeconfig::Merge(Kubeconfig other) {
  if (current_context.empty()) current_context = std::move(other.current_context);
  clusters.merge(other.clusters);
  users.merge(other.users);
  contexts.merge(other.contexts);
}

absl::StatusOr<Kubeconfig> ParseKubeconfig(std::string_view text, const std::string& file) {
  try {
    const YAML::Node node = YAML::Load(std::string(text));
    if (node.IsNull()) return Kubeconfig();  // an empty file says nothing
    return ReadTop(node, file);
  } catch (const YAML::Exception& error) {
    return Bad(absl::StrCat("kubeconfig ", file, ":", error.mark.line + 1), error.msg);
  }
}

absl::StatusOr<ConnectionConfig> ResolveKubeconfig(const Kubeconfig& config, const std::string& context,
                                                   const std::string& files) {
  const std::string where = absl::StrCat("kubeconfig ", files);
  const std::string name = context.empty() ? config.current_context : context;
  if (name.empty()) return Bad(where, "has no current-context, and none is given");
  const auto chosen = Find(config.contexts, "context", name, where);
  if (!chosen.ok()) return chosen.status();
  const std::string& context_where = config.contexts.at(name).where;
  if (chosen->cluster.empty()) return Bad(absl::StrCat(context_where, ".context.cluster"), "is missing");
  const auto cluster =
      Find(config.clusters, "cluster", chosen->cluster, absl::StrCat(context_where, ".context.cluster"));
  if (!cluster.ok()) return cluster.status();

  ConnectionConfig out;
  out.ns = chosen->ns;
  absl::Status status = ResolveCluster(*cluster, config.clusters.at(chosen->cluster).where, &out);
  if (!status.ok()) return status;
  if (chosen->user.empty()) return out;  // anonymous
  const auto user = Find(config.users, "user", chosen->user, absl::StrCat(context_where, ".context.user"));
  if (!user.ok()) return user.status();
  status = ResolveUser(*user, *cluster, config.users.at(chosen->user).where, &out);
  if (!status.ok()) return status;
  return out;
}

absl::StatusOr<ConnectionConfig> LoadKubeconfig(const std::string& path, const std::string& context) {
  const auto files = FilesToRead(path);
  if (!files.ok()) return files.status();
  Kubeconfig all;
  bool found = false;
  for (const std::string& file : *files) {
    const auto text = ReadSmallFile(file, kFileBytesMax);
    // $KUBECONFIG may name files that do not exist (yet), as long as one does.
    if (absl::IsNotFound(text.status()) && files->size() > 1) continue;
    if (!text.ok()) return absl::Status(text.status().code(), absl::StrCat("kubeconfig ", text.status().message()));
    auto parsed = ParseKubeconfig(*text, file);
    if (!parsed.ok()) return parsed.status();
    all.Merge(*std::move(parsed));
    found = true;
  }
  const std::string names = absl::StrJoin(*files, ":");
  if (!found) return absl::NotFoundError(absl::StrCat("kubeconfig ", names, ": none of these files exists"));
  return ResolveKubeconfig(all, context, names);
}

}  // namespace muster::k8s
