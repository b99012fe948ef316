// Source of the rules: k8s.io/client-go tools/clientcmd (loading order, precedence of data over files).
#include "kubeconfig.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "harness.h"
#include "http_address.h"
#include "muster/core/hash.h"

namespace muster::k8s {
namespace {

using testing::Authority;
using testing::Certificate;
using testing::TempDir;

const Certificate& Own() {
  static const Certificate own = testing::Issue(Authority(), {"me", ""});
  return own;
}

// Sets a variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* before = ::getenv(name);
    if (before != nullptr) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

std::string Minimal(const std::string& cluster_extra, const std::string& user) {
  return absl::StrCat(R"(apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://api.example:6443")",
                      cluster_extra, R"(}}]
users: [{name: u, user: {)",
                      user, "}}]\n");
}

absl::StatusOr<ConnectionConfig> Load(const std::string& text, const std::string& context = "") {
  static const TempDir files;
  return LoadKubeconfig(files.Write("config", text), context);
}

TEST_CASE("kubeconfig: data in the file") {
  const auto config =
      Load(absl::StrCat(Minimal(absl::StrCat(", tls-server-name: other.example, certificate-authority-data: ",
                                             Base64Encode(Authority().pem)),
                                absl::StrCat("client-certificate-data: ", Base64Encode(Own().pem),
                                             ", client-key-data: ", Base64Encode(Own().key_pem))),
                        "preferences: {colors: true}\nextensions: [{name: x, extension: {a: b}}]\n"));
  REQUIRE(config.ok());
  CHECK(config->server == "https://api.example:6443");
  CHECK(config->tls_server_name == "other.example");
  CHECK(config->ca_pem == Authority().pem);
  CHECK(config->client_cert_pem == Own().pem);
  CHECK(config->client_key_pem == Own().key_pem);
  CHECK(config->token == "");
  CHECK_FALSE(config->insecure);
  CHECK(config->ns == "");
}

TEST_CASE("kubeconfig: files are relative to the kubeconfig, data wins over them") {
  TempDir files;
  files.Write("ca.pem", Authority().pem);
  files.Write("cert.pem", Own().pem);
  files.Write("key.pem", Own().key_pem);
  files.Write("tok", "secret\n");
  const auto load = [&](const std::string& text) { return LoadKubeconfig(files.Write("config", text), ""); };
  auto config =
      load(Minimal(", certificate-authority: ca.pem",
                   "client-certificate: ./cert.pem, client-key: " + files.Path("key.pem") + ", tokenFile: tok"));
  REQUIRE(config.ok());
  CHECK(config->ca_pem == Authority().pem);
  CHECK(config->client_cert_pem == Own().pem);
  CHECK(config->client_key_pem == Own().key_pem);
  CHECK(config->token_file == files.Path("tok"));

  config = load(Minimal(
      absl::StrCat(", certificate-authority: missing.pem, certificate-authority-data: ", Base64Encode(Authority().pem)),
      "token: abc"));
  REQUIRE(config.ok());
  CHECK(config->ca_pem == Authority().pem);
  CHECK(config->token == "abc");
}

TEST_CASE("kubeconfig: the context chosen, and what it says") {
  const std::string text = R"(
current-context: one
contexts:
- {name: one, context: {cluster: a, user: alice, namespace: blue}}
- {name: two, context: {cluster: b, user: bob}}
- {name: anonymous, context: {cluster: b}}
clusters:
- {name: a, cluster: {server: "https://a"}}
- {name: b, cluster: {server: "http://127.0.0.1:8001", insecure-skip-tls-verify: true, disable-compression: true}}
users:
- {name: alice, user: {token: ta}}
- {name: bob, user: {token: 12345}}
)";
  const auto one = Load(text);
  REQUIRE(one.ok());
  CHECK(one->server == "https://a");
  CHECK(one->ns == "blue");
  CHECK(one->token == "ta");
  CHECK_FALSE(one->insecure);
  const auto two = Load(text, "two");
  REQUIRE(two.ok());
  CHECK(two->server == "http://127.0.0.1:8001");
  CHECK(two->insecure);
  CHECK(two->token == "12345");
  const auto anonymous = Load(text, "anonymous");
  REQUIRE(anonymous.ok());
  CHECK(anonymous->token == "");
}

TEST_CASE("kubeconfig: $KUBECONFIG lists files, of which the first wins entry by entry") {
  TempDir files;
  std::filesystem::create_directory(files.Path("sub"));
  files.Write("sub/tok", "from-second");
  const std::string first = files.Write("first", R"(
contexts: [{name: x, context: {cluster: c, user: u, namespace: first}}]
users: [{name: other, user: {token: t}}]
)");
  const std::string second = files.Write("sub/second", R"(
current-context: x
contexts: [{name: x, context: {cluster: nowhere, user: nobody}}]
clusters: [{name: c, cluster: {server: "https://second"}}]
users: [{name: u, user: {tokenFile: tok}}]
)");
  const std::string third = files.Write("third", R"(
current-context: y
clusters: [{name: c, cluster: {server: "https://third"}}]
)");
  const Variable variable("KUBECONFIG", absl::StrCat(first, ":", files.Path("missing"), "::", second, ":", third));
  const auto config = LoadKubeconfig("", "");
  REQUIRE(config.ok());
  CHECK(config->server == "https://second");
  CHECK(config->ns == "first");
  CHECK(config->token_file == files.Path("sub/tok"));

  // A path that is given counts alone.
  const auto alone = LoadKubeconfig(third, "");
  CHECK_THAT(std::string(alone.status().message()), Catch::Contains("context \"y\""));
}

TEST_CASE("kubeconfig: without a path and $KUBECONFIG it is the one at home") {
  TempDir home;
  const Variable no_list("KUBECONFIG", "");
  const Variable variable("HOME", home.path());
  const auto missing = LoadKubeconfig("", "");
  CHECK(absl::IsNotFound(missing.status()));
  CHECK_THAT(std::string(missing.status().message()), Catch::Contains(home.Path(".kube/config")));
  std::filesystem::create_directory(home.Path(".kube"));
  home.Write(".kube/config", Minimal("", "token: t"));
  const auto config = LoadKubeconfig("", "");
  REQUIRE(config.ok());
  CHECK(config->token == "t");
}

struct Broken {
  std::string text;
  std::vector<std::string> in_error;
};

TEST_CASE("kubeconfig: an exec plugin") {
  const TempDir files;
  const std::string path = files.Write("config", R"(apiVersion: v1
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters:
- name: c
  cluster:
    server: https://api.example
    extensions:
    - {name: other, extension: 3}
    - name: client.authentication.k8s.io/exec
      extension: {audience: "7", depth: 3, on: true, off: "true", none: null, list: [a, 1.5e3, 01], "q\"": 1-2}
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: bin/get-token
      args: [--cluster, "5", ""]
      env: [{name: REGION, value: east}, {name: EMPTY, value: ""}]
      installHint: get it from example.com
      provideClusterInfo: true
)");
  const auto config = LoadKubeconfig(path, "");
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  REQUIRE(config->exec.has_value());
  const ExecPlugin& plugin = *config->exec;
  CHECK(plugin.name == absl::StrCat("exec plugin bin/get-token (kubeconfig ", path, ": users[u])"));
  CHECK(plugin.api_version == "client.authentication.k8s.io/v1beta1");
  CHECK(plugin.command == files.Path("bin/get-token"));  // with a slash: from where the file lies
  CHECK(plugin.args == std::vector<std::string>{"--cluster", "5", ""});
  CHECK(plugin.env == std::vector<std::pair<std::string, std::string>>{{"REGION", "east"}, {"EMPTY", ""}});
  CHECK(plugin.install_hint == "get it from example.com");
  CHECK(plugin.provide_cluster_info);
  // "01" is no number of JSON.
  CHECK(plugin.cluster_config ==
        R"({"audience":"7","depth":3,"on":true,"off":"true","none":null,"list":["a",1.5e3,"01"],"q\"":"1-2"})");
}

TEST_CASE("kubeconfig: an extension that aliases make endless is refused") {
  std::string text = absl::StrReplaceAll(Minimal(", extensions: [{name: client.authentication.k8s.io/exec, extension: "
                                                 "{a: &a [x, x, x, x, x, x, x, x, x, x]EXTRA}}]",
                                                 "token: t"),
                                         {{"EXTRA", ", b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a], c: &c [*b, *b, "
                                                    "*b, *b, *b, *b, *b, *b, *b, *b], d: &d [*c, *c, *c, *c, *c, *c, "
                                                    "*c, *c, *c, *c], e: [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]"}});
  const auto config = Load(text);
  REQUIRE_FALSE(config.ok());
  CHECK_THAT(std::string(config.status().message()), Catch::Contains("clusters[c].cluster.extensions: is too long"));
}

TEST_CASE("kubeconfig: what is wrong is named by file and field") {
  const std::string kV1 = "exec: {apiVersion: client.authentication.k8s.io/v1, ";
  const std::string ca = Base64Encode(Authority().pem);
  const std::string key = Base64Encode(Own().key_pem);
  const std::string strange_key = Base64Encode(testing::Issue(Authority(), {"x", ""}).key_pem);
  const std::string own = Base64Encode(Own().pem);
  const auto user = [](const std::string& fields) { return Minimal("", fields); };
  const auto cluster = [](const std::string& fields) { return Minimal(", " + fields, "token: t"); };
  const Broken c = GENERATE_COPY(
      Broken{"a: [", {"/config:", "end of"}}, Broken{"[]", {"must be a map"}}, Broken{"text", {"must be a map"}},
      Broken{"", {"no current-context"}}, Broken{"apiVersion: v2", {".apiVersion: must be v1"}},
      Broken{"kind: Pod", {".kind: must be Config"}}, Broken{"clusterz: []", {".clusterz: is not a known field"}},
      Broken{"clusters: {}", {"clusters: must be a list"}}, Broken{"clusters: [x]", {"clusters[0]: must be a map"}},
      Broken{"clusters: [{cluster: {}}]", {"clusters[0].name: is missing"}},
      Broken{"users: [{name: a}, {name: a}]", {"users[a]: is given twice"}},
      Broken{"users: []\nusers: []", {".users: is given twice"}},
      Broken{"current-context: [x]", {".current-context: must be text"}},
      Broken{"current-context: x", {"context \"x\" is not among them (none)"}},
      Broken{"contexts: [{name: b, context: {}}]\ncurrent-context: a", {"context \"a\" is not among them (b)"}},
      Broken{"contexts: [{name: a, context: {}}]\ncurrent-context: a", {"contexts[a].context.cluster: is missing"}},
      Broken{"contexts: [{name: a, context: {cluster: z}}]\ncurrent-context: a",
             {"contexts[a].context.cluster: cluster \"z\""}},
      Broken{"contexts: [{name: a, context: {cluster: c, user: z}}]\ncurrent-context: a\nclusters: [{name: c, cluster: "
             "{server: \"https://h\"}}]",
             {"contexts[a].context.user: user \"z\""}},
      Broken{"contexts: [{name: a, context: {cluster: c}}]\ncurrent-context: a\nclusters: [{name: c}]",
             {"clusters[c].cluster.server: is missing"}},
      Broken{"contexts: [{name: a, context: {cluster: c}}]\ncurrent-context: a\nclusters: [{name: c, cluster: {server: "
             "h}}]",
             {"clusters[c].cluster.server: ", "must begin with https://"}},
      Broken{cluster("proxy-url: http://p"), {"clusters[c].cluster.proxy-url: proxies are not supported"}},
      Broken{cluster("nonsense: 1"), {"clusters[c].cluster.nonsense: is not a known field"}},
      Broken{cluster("insecure-skip-tls-verify: yes"),
             {"clusters[c].cluster.insecure-skip-tls-verify: must be true or false"}},
      Broken{cluster("insecure-skip-tls-verify: true, certificate-authority-data: " + ca),
             {"clusters[c].cluster.insecure-skip-tls-verify: contradicts"}},
      Broken{cluster("certificate-authority-data: \"***\""),
             {"clusters[c].cluster.certificate-authority-data: is not base64"}},
      Broken{cluster("certificate-authority-data: aGVsbG8="),
             {"clusters[c].cluster.certificate-authority-data: holds no PEM certificate"}},
      Broken{cluster("certificate-authority: missing.pem"),
             {"clusters[c].cluster.certificate-authority: ", "missing.pem: No such file"}},
      Broken{cluster("certificate-authority: /dev/zero"),
             {"clusters[c].cluster.certificate-authority: /dev/zero: is not a regular file"}},
      Broken{user("exec: {command: aws}"), {"users[u].user.exec.apiVersion: must be client.authentication.k8s.io/v1"}},
      Broken{user("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: aws}"),
             {"users[u].user.exec.apiVersion: must be client.authentication.k8s.io/v1 or"}},
      Broken{user(kV1 + "interactiveMode: Never}"), {"users[u].user.exec.command: is missing"}},
      Broken{user(kV1 + "command: aws}"), {"users[u].user.exec.interactiveMode: must be Never or IfAvailable"}},
      Broken{user(kV1 + "command: aws, interactiveMode: Always}"),
             {"users[u].user.exec.interactiveMode: is Always: a plugin that asks on a terminal"}},
      Broken{user(kV1 + "command: aws, interactiveMode: Sometimes}"),
             {"users[u].user.exec.interactiveMode: must be Never or IfAvailable"}},
      Broken{user(kV1 + "command: aws, interactiveMode: Never, args: [[a]]}"),
             {"users[u].user.exec.args: must be a list of texts"}},
      Broken{user(kV1 + "command: aws, interactiveMode: Never, env: [{name: A=B, value: c}]}"),
             {"users[u].user.exec.env: must be a list of {name, value}"}},
      Broken{user(kV1 + "command: aws, interactiveMode: Never, timeout: 3}"),
             {"users[u].user.exec.timeout: is not a known field"}},
      Broken{user(kV1 + "command: aws, interactiveMode: Never}, token: t"),
             {"users[u].user.exec: cannot be given beside a client certificate or token"}},
      Broken{user("auth-provider: {name: gcp}"), {"users[u].user.auth-provider: is not supported"}},
      Broken{user("username: me, password: pw"), {"users[u].user.username: is not supported"}},
      Broken{user("as: root"), {"users[u].user.as: impersonation is not supported"}},
      Broken{user("token: t, tokenfile: f"), {"users[u].user.tokenfile: is not a known field"}},
      Broken{user("token: \"a b\""), {"users[u].user.token: holds a character"}},
      Broken{user("token: {a: b}"), {"users[u].user.token: must be text"}},
      Broken{user("tokenFile: missing"), {"users[u].user.tokenFile: ", "missing: No such file"}},
      Broken{user("client-certificate-data: " + own), {"users[u].user.client-key: is missing"}},
      Broken{user("client-key-data: " + key), {"users[u].user.client-certificate: is missing"}},
      Broken{user("client-certificate-data: " + own + ", client-key-data: " + strange_key),
             {"users[u].user.client-certificate: the key does not belong"}},
      Broken{user("client-certificate-data: " + own + ", client-key-data: aGVsbG8="),
             {"users[u].user.client-certificate: the key holds no PEM private key"}});
  CAPTURE(c.text);
  const auto config = Load(c.text);
  REQUIRE_FALSE(config.ok());
  const std::string message(config.status().message());
  CHECK_THAT(message, Catch::StartsWith("kubeconfig ") && Catch::Contains("/config"));
  for (const std::string& part : c.in_error) CHECK_THAT(message, Catch::Contains(part));
}

TEST_CASE("kubeconfig: an error never holds a secret") {
  const auto token = Load(Minimal("", "token: \"s3cret value\""));
  CHECK_THAT(std::string(token.status().message()), !Catch::Contains("s3cret"));
  const auto password = Load(Minimal("", "username: me, password: s3cret"));
  CHECK_THAT(std::string(password.status().message()), !Catch::Contains("s3cret"));
}

TEST_CASE("kubeconfig: entries that are not chosen may be anything") {
  const auto config = Load(absl::StrReplaceAll(
      Minimal("", "token: t"),
      {{"users: [", "users: [{name: other, user: {exec: {command: aws}, surprise: 1}}, {name: third, user: text}, "}}));
  REQUIRE(config.ok());
  CHECK(config->token == "t");
}

TEST_CASE("kubeconfig: an encrypted key is refused, not asked for on the terminal") {
  // PKCS#8 with a passphrase; the content does not matter.
  const auto config =
      Load(Minimal("", absl::StrCat("client-certificate-data: ", Base64Encode(Own().pem), ", client-key-data: ",
                                    Base64Encode("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMFA=\n"
                                                 "-----END ENCRYPTED PRIVATE KEY-----\n"))));
  REQUIRE_FALSE(config.ok());
  CHECK_THAT(std::string(config.status().message()), Catch::Contains("without passphrase"));
}

// --- in the cluster ---

class Pod {
 public:
  Pod() {
    files.Write("token", "pod-token");
    files.Write("ca.crt", Authority().pem);
    files.Write("namespace", "kueue-system\n");
  }
  TempDir files;
};

TEST_CASE("in-cluster configuration") {
  struct Case {
    std::string host;
    std::string server;
  };
  const Case c = GENERATE(Case{"10.0.0.1", "https://10.0.0.1:443"}, Case{"api.internal", "https://api.internal:443"},
                          Case{"fd00::1", "https://kubernetes.default.svc:443"});
  const Pod pod;
  const Variable host("KUBERNETES_SERVICE_HOST", c.host);
  const Variable port("KUBERNETES_SERVICE_PORT", "443");
  const auto config = InClusterConfig(pod.files.path());
  REQUIRE(config.ok());
  CHECK(config->server == c.server);
  CHECK(config->ca_pem == Authority().pem);
  CHECK(config->token_file == pod.files.Path("token"));
  CHECK(config->ns == "kueue-system");
  CHECK_FALSE(config->insecure);
}

TEST_CASE("in-cluster configuration: what is missing or unfit is named") {
  struct Case {
    std::string host = "10.0.0.1";
    std::string port = "443";
    std::string file;
    std::optional<std::string> content;
    std::string error;
  };
  const Case c = GENERATE(Case{"", "443", "", std::nullopt, "$KUBERNETES_SERVICE_HOST is not set"},
                          Case{"10.0.0.1", "", "", std::nullopt, "$KUBERNETES_SERVICE_PORT is not set"},
                          Case{"10.0.0.1", "x", "", std::nullopt, "the port must be a number"},
                          Case{"10.0.0.1", "443", "token", std::nullopt, "/token: No such file"},
                          Case{"10.0.0.1", "443", "token", "", "/token is empty"},
                          Case{"10.0.0.1", "443", "ca.crt", std::nullopt, "/ca.crt: No such file"},
                          Case{"10.0.0.1", "443", "ca.crt", "x", "/ca.crt: holds no PEM certificate"},
                          Case{"10.0.0.1", "443", "namespace", std::nullopt, "/namespace: No such file"},
                          Case{"10.0.0.1", "443", "namespace", "\n", "/namespace: is empty"});
  const Pod pod;
  if (!c.file.empty()) {
    std::filesystem::remove(pod.files.Path(c.file));
    if (c.content) pod.files.Write(c.file, *c.content);
  }
  const Variable host("KUBERNETES_SERVICE_HOST", c.host);
  const Variable port("KUBERNETES_SERVICE_PORT", c.port);
  const auto config = InClusterConfig(pod.files.path());
  REQUIRE_FALSE(config.ok());
  CHECK_THAT(std::string(config.status().message()), Catch::Contains(c.error));
}

// --- URLs ---

TEST_CASE("server URLs") {
  struct Case {
    std::string url;
    std::string authority;
    std::string base_path;
    bool tls;
  };
  const Case c =
      GENERATE(Case{"https://Api.Example", "api.example:443", "", true}, Case{"HTTPS://h:6443/", "h:6443", "", true},
               Case{"http://127.0.0.1", "127.0.0.1:80", "", false},
               Case{"https://h/k8s/clusters/c-1//", "h:443", "/k8s/clusters/c-1", true},
               Case{"https://[fd00::1]:1234/p", "[fd00::1]:1234", "/p", true});
  const auto address = ParseServerUrl(c.url);
  REQUIRE(address.ok());
  CHECK(address->Authority() == c.authority);
  CHECK(address->base_path == c.base_path);
  CHECK(address->tls == c.tls);
}

TEST_CASE("URLs that cannot be used") {
  const std::string url = GENERATE(
      "", "h:6443", "ftp://h", "https://", "https:///x", "https://h:", "https://h:0", "https://h:65536", "https://h:6x",
      "https://h:-1", "https://a b", "https://h/a b", "https://h/?q", "https://h?q", "https://u@h", "https://[::1",
      "https://[h]", "https://[127.0.0.1]", "https://[::1]x", "https://::1", "https://h/\r\nX: y", "https://h\r\n");
  CAPTURE(url);
  const auto address = ParseServerUrl(url);
  REQUIRE_FALSE(address.ok());
  CHECK_THAT(std::string(address.status().message()), Catch::Contains(url));
}

}  // namespace
}  // namespace muster::k8s
