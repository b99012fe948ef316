// The rules of the API server: the simulated one and a real one get the same requests, and must give the same answers:
// code and reason, which fields were wrong, what was stored, whether generation and resourceVersion moved, and what
// watches tell. Messages are for people, and may differ.
#include <catch2/catch.hpp>

#include "real_world.h"
#include "script.h"
#include "sim_world.h"

namespace muster::scenarios {
namespace {

World& RealServer() {
  static const std::unique_ptr<World> world = NewRealServer();
  return *world;
}

// Each test has a namespace of its own.
struct Place {
  std::string ns;
  std::string In(const std::string& api, const std::string& plural, const std::string& rest) const {
    return api + "/namespaces/" + ns + "/" + plural + (rest.empty() || rest[0] == '?' ? rest : "/" + rest);
  }
  std::string Jobs(const std::string& rest = "") const { return In("/apis/batch/v1", "jobs", rest); }
  std::string ConfigMaps(const std::string& rest = "") const { return In("/api/v1", "configmaps", rest); }
  std::string Leases(const std::string& rest = "") const { return In("/apis/coordination.k8s.io/v1", "leases", rest); }
  std::string Queues(const std::string& rest = "") const {
    return In("/apis/kueue.x-k8s.io/v1beta2", "localqueues", rest);
  }
  std::string OldQueues(const std::string& rest = "") const {
    return In("/apis/kueue.x-k8s.io/v1beta1", "localqueues", rest);
  }
};

// Members that follow others, each with its comma: R"(,"labels":{})".
std::string JobText(const std::string& name, const std::string& metadata = "", const std::string& spec = "",
                    const std::string& pod = "", const std::string& rest = "") {
  return R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":")" + name + "\"" + metadata +
         R"(},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"train:1"}])" +
         pod + "}}" + spec + "}" + rest + "}";
}
// The same with what the server made up, as a client that read the Job sends it.
std::string WholeJobText(const std::string& name, const std::string& metadata, const std::string& spec,
                         const std::string& rest = "") {
  const std::string uid = "\"${uid:" + name + "}\"";
  return R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":")" + name + "\"" + metadata +
         R"(},"spec":{"selector":{"matchLabels":{"batch.kubernetes.io/controller-uid":)" + uid +
         R"(}},"template":{"metadata":{"labels":{"batch.kubernetes.io/controller-uid":)" + uid +
         R"(,"controller-uid":)" + uid + R"(,"batch.kubernetes.io/job-name":")" + name + R"(","job-name":")" + name +
         R"("}},"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"train:1"}]}})" + spec + "}" +
         rest + "}";
}
std::string ConfigMapText(const std::string& name, const std::string& rest = "", const std::string& metadata = "") {
  return R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":")" + name + "\"" + metadata + "}" + rest + "}";
}
std::string QueueText(const std::string& name, const std::string& metadata = "", const std::string& rest = "",
                      const std::string& version = "v1beta2") {
  return R"({"apiVersion":"kueue.x-k8s.io/)" + version + R"(","kind":"LocalQueue","metadata":{"name":")" + name + "\"" +
         metadata + R"(},"spec":{"clusterQueue":"cq","stopPolicy":"None"})" + rest + "}";
}

void Compare(const std::string& ns, const std::vector<std::string>& watched, const std::vector<Step>& steps) {
  const std::unique_ptr<World> simulated = NewSimServer(1);
  World* const worlds[] = {simulated.get(), &RealServer()};
  std::vector<Json> answers[2];
  std::vector<std::vector<Json>> watches[2];
  for (size_t i = 0; i < 2; ++i) {
    World& world = *worlds[i];
    ScriptRun run(&world);
    run.Run({"namespace", "POST", "/api/v1/namespaces",
             R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":")" + ns + "\"}}"});
    std::vector<std::unique_ptr<WatchLines>> open;
    for (const std::string& target : watched) {
      const std::string list = target.substr(0, target.find('?'));
      const std::string version = Text(At(world.Call("GET", list).body, "metadata", "resourceVersion"));
      open.push_back(world.Watch(target + (list == target ? "?" : "&") + "resourceVersion=" + version));
    }
    for (const Step& step : steps) answers[i].push_back(run.Run(step));
    for (size_t w = 0; w < open.size(); ++w) {
      // As many as the simulator told, and then some time for one too many.
      if (i == 1) {
        world.Await([&] { return open[w]->Lines().size() >= watches[0][w].size(); }, std::chrono::seconds(10));
      }
      world.Pass(std::chrono::milliseconds(300));
      ScriptRun reader(&world);
      std::vector<Json>& lines = watches[i].emplace_back();
      for (const Json& line : open[w]->Lines()) {
        Json object = reader.Normalized(line["object"]);
        lines.push_back({{"type", line["type"]}, {"object", std::move(object)}});
      }
    }
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    Json mine = answers[0][i];
    Json real = answers[1][i];
    INFO(steps[i].title << ": " << steps[i].method << " " << steps[i].target << " " << steps[i].body << "\nsimulated "
                        << mine.dump() << "\nreal      " << real.dump());
    mine.erase("message");
    real.erase("message");
    CHECK(Json::diff(real, mine).dump(1) == "[]");
  }
  for (size_t w = 0; w < watched.size(); ++w) {
    INFO("watch of " << watched[w]);
    CHECK(Json::diff(watches[1][w], watches[0][w]).dump(1) == "[]");
  }
}

TEST_CASE("Creation: defaults, names, and what is refused") {
  const Place at{"creation"};
  Compare(
      at.ns, {at.Jobs()},
      {
          {"with defaults", "POST", at.Jobs(), JobText("a")},
          {"again", "POST", at.Jobs(), JobText("a")},
          {"read", "GET", at.Jobs("a")},
          {"read what is not there", "GET", at.Jobs("nobody")},
          {"suspended, with counts", "POST", at.Jobs(),
           JobText("b", R"(,"labels":{"x":"y"})", R"(,"suspend":true,"parallelism":3,"completions":3)")},
          {"indexed", "POST", at.Jobs(),
           JobText("c", "", R"(,"suspend":true,"completionMode":"Indexed","parallelism":2,"completions":2)")},
          {"parallelism alone", "POST", at.Jobs(), JobText("d", "", R"(,"parallelism":2)")},
          {"empty maps, nulls", "POST", at.Jobs(),
           JobText("e", R"(,"labels":{},"annotations":null)", R"(,"suspend":null)",
                   R"(,"nodeSelector":{},"tolerations":[],"priorityClassName":"")")},
          {"untagged image, ports", "POST", at.Jobs(),
           R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"f"},"spec":{"template":{"spec":{
             "restartPolicy":"OnFailure","containers":[{"name":"m","image":"reg.example:5000/x","ports":
             [{"containerPort":80}],"resources":{"requests":{"cpu":"500m","memory":"1Gi"}}}]}}}})"},
          {"status is not taken", "POST", at.Jobs(), JobText("g", "", "", "", R"(,"status":{"active":3})")},
          {"a uid, a generation and a time of its own", "POST", at.Jobs(),
           JobText("h", R"(,"uid":"x","generation":7,"creationTimestamp":"2020-01-01T00:00:00Z")")},
          {"generated name", "POST", at.Jobs(),
           R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"generateName":"gen-"},"spec":{"template":{"spec":{
             "restartPolicy":"Never","containers":[{"name":"m","image":"i"}]}}}})"},
          {"no name", "POST", at.Jobs(),
           R"({"apiVersion":"batch/v1","kind":"Job","metadata":{},"spec":{"template":{"spec":{
             "restartPolicy":"Never","containers":[{"name":"m","image":"i"}]}}}})"},
          {"bad name", "POST", at.Jobs(), JobText("Upper_case")},
          {"bad label", "POST", at.Jobs(), JobText("z", R"(,"labels":{"a":"not a label"})")},
          {"bad label key", "POST", at.Jobs(), JobText("z", R"(,"labels":{"-a":"b"})")},
          {"bad annotation key", "POST", at.Jobs(), JobText("z", R"(,"annotations":{"a/b/c":"b"})")},
          {"negative count", "POST", at.Jobs(), JobText("z", "", R"(,"parallelism":-1)")},
          {"indexed without completions", "POST", at.Jobs(), JobText("z", "", R"(,"completionMode":"Indexed")")},
          {"bad mode", "POST", at.Jobs(), JobText("z", "", R"(,"completionMode":"Odd")")},
          {"bad toleration", "POST", at.Jobs(),
           JobText("z", "", "", R"(,"tolerations":[{"key":"a","operator":"Exists","value":"b"}])")},
          {"bad effect", "POST", at.Jobs(), JobText("z", "", "", R"(,"tolerations":[{"key":"a","effect":"Odd"}])")},
          {"bad node selector", "POST", at.Jobs(), JobText("z", "", "", R"(,"nodeSelector":{"a":"b c"})")},
          {"restart always", "POST", at.Jobs(),
           R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"z"},"spec":{"template":{"spec":{
             "containers":[{"name":"m","image":"i"}]}}}})"},
          {"no containers", "POST", at.Jobs(),
           R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"z"},"spec":{"template":{"spec":{
             "restartPolicy":"Never"}}}})"},
          {"a count that is text", "POST", at.Jobs(), JobText("z", "", R"(,"parallelism":"two")")},
          {"another kind", "POST", at.Jobs(), ConfigMapText("z")},
          {"another version", "POST", at.Jobs(), R"({"apiVersion":"batch/v2","kind":"Job","metadata":{"name":"z"}})"},
          {"not JSON", "POST", at.Jobs(), "{"},
          {"another namespace in the body", "POST", at.Jobs(), JobText("z", R"(,"namespace":"team")")},
          {"a namespace that is not there", "POST", Place{"nowhere"}.Jobs(), JobText("z")},
          {"a resourceVersion", "POST", at.Jobs(), JobText("z", R"(,"resourceVersion":"1")")},
          {"an owner without uid", "POST", at.Jobs(),
           JobText("z", R"(,"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p"}])")},
          {"no such resource", "POST", "/apis/batch/v1/namespaces/creation/nothing", "{}"},
          {"no such group", "POST", "/apis/nothing.example/v1/namespaces/creation/jobs", JobText("z")},
          {"no such version", "POST", "/apis/batch/v7/namespaces/creation/jobs", JobText("z")},
          {"a body that is refused at a name", "POST", at.Jobs("a"), JobText("a")},
          {"another content type", "POST", at.Jobs(), JobText("z"), "text/plain"},
      });
}

TEST_CASE("Replacing: optimistic locking, what cannot change, and what does not count as a change") {
  const Place at{"replacing"};
  const std::string kept = R"(,"suspend":true)";
  Compare(
      at.ns, {at.Jobs()},
      {
          {"make", "POST", at.Jobs(), JobText("a", "", kept)},
          {"of the first version", "PUT", at.Jobs("a"),
           WholeJobText("a", R"(,"resourceVersion":"${rv:a}","labels":{"x":"1"})", kept)},
          {"stale", "PUT", at.Jobs("a"),
           WholeJobText("a", R"(,"resourceVersion":"${old:a}","labels":{"x":"2"})", kept)},
          {"the same again", "PUT", at.Jobs("a"),
           WholeJobText("a", R"(,"resourceVersion":"${rv:a}","labels":{"x":"1"})", kept)},
          {"without a version", "PUT", at.Jobs("a"), WholeJobText("a", R"(,"labels":{"x":"3"})", kept)},
          {"without labels", "PUT", at.Jobs("a"), WholeJobText("a", "", kept)},
          {"without its selector and labels", "PUT", at.Jobs("a"), JobText("a", "", kept)},
          {"the suspension", "PUT", at.Jobs("a"), WholeJobText("a", R"(,"labels":{"x":"3"})", R"(,"suspend":false)")},
          {"the status is left", "PUT", at.Jobs("a"),
           WholeJobText("a", R"(,"labels":{"x":"3"})", R"(,"suspend":false)", R"(,"status":{"active":1})")},
          {"another uid", "PUT", at.Jobs("a"), WholeJobText("a", R"(,"uid":"other")", R"(,"suspend":false)")},
          {"what cannot change", "PUT", at.Jobs("a"),
           WholeJobText("a", "", R"(,"suspend":false,"completionMode":"Indexed","completions":3)")},
          {"another name", "PUT", at.Jobs("a"), JobText("b")},
          {"what is not there", "PUT", at.Jobs("nobody"), JobText("nobody")},
          {"a lease that is not there", "PUT", at.Leases("l"),
           R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"},
             "spec":{"holderIdentity":"me","leaseDurationSeconds":15}})"},
          {"a lease without version", "PUT", at.Leases("l"),
           R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"},
             "spec":{"holderIdentity":"you","leaseDurationSeconds":15}})"},
          {"a lease with its version", "PUT", at.Leases("l"),
           R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l","resourceVersion":"${rv:l}"},
             "spec":{"holderIdentity":"you","leaseDurationSeconds":15}})"},
          {"a lease with a stale one", "PUT", at.Leases("l"),
           R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l","resourceVersion":"${old:l}"},
             "spec":{"holderIdentity":"they","leaseDurationSeconds":15}})"},
          {"a new custom resource", "POST", at.Queues(), QueueText("q")},
          {"custom without version", "PUT", at.Queues("q"), QueueText("q", R"(,"labels":{"x":"1"})")},
          {"custom with it", "PUT", at.Queues("q"),
           QueueText("q", R"(,"resourceVersion":"${rv:q}","labels":{"x":"1"})")},
          {"custom, the same", "PUT", at.Queues("q"),
           QueueText("q", R"(,"resourceVersion":"${rv:q}","labels":{"x":"1"})")},
          {"custom, stale", "PUT", at.Queues("q"), QueueText("q", R"(,"resourceVersion":"${old:q}")")},
          {"custom, by its other version", "PUT", at.OldQueues("q"),
           QueueText("q", R"(,"resourceVersion":"${rv:q}","labels":{"x":"2"})", "", "v1beta1")},
          {"custom, one version to the other", "PUT", at.OldQueues("q"),
           QueueText("q", R"(,"resourceVersion":"${rv:q}")")},
          {"custom, what is not there", "PUT", at.Queues("nobody"), QueueText("nobody", R"(,"resourceVersion":"1")")},
          {"a map that is not there", "PUT", at.ConfigMaps("m"), ConfigMapText("m")},
      });
}

TEST_CASE("Merge patches") {
  const Place at{"merging"};
  const auto patch = [&](std::string title, std::string target, std::string body) {
    return Step{std::move(title), "PATCH", std::move(target), std::move(body), kMergePatch};
  };
  Compare(at.ns, {at.Jobs(), at.Queues()},
          {
              {"make", "POST", at.Jobs(), JobText("a", R"(,"labels":{"x":"1"})", R"(,"suspend":true)")},
              patch("a label", at.Jobs("a"), R"({"metadata":{"labels":{"y":"2"}}})"),
              patch("nothing", at.Jobs("a"), "{}"),
              patch("the same", at.Jobs("a"), R"({"metadata":{"labels":{"y":"2"}},"spec":{"suspend":true}})"),
              patch("a label goes", at.Jobs("a"), R"({"metadata":{"labels":{"y":null}}})"),
              patch("what is not there goes", at.Jobs("a"), R"({"metadata":{"annotations":{"y":null}}})"),
              patch("an annotation", at.Jobs("a"), R"({"metadata":{"annotations":{"y":""}}})"),
              patch("parallelism", at.Jobs("a"), R"({"spec":{"parallelism":4}})"),
              patch("a selector while suspended", at.Jobs("a"),
                    R"({"spec":{"template":{"spec":{"nodeSelector":{"pool":"a"}}}}})"),
              patch("template metadata while suspended", at.Jobs("a"),
                    R"({"spec":{"template":{"metadata":{"labels":{"t":"1"},"annotations":{"t":"2"}}}}})"),
              patch("tolerations while suspended", at.Jobs("a"),
                    R"({"spec":{"template":{"spec":{"tolerations":[{"key":"k","operator":"Exists"}]}}}})"),
              patch("an image", at.Jobs("a"),
                    R"({"spec":{"template":{"spec":{"containers":[{"name":"main","image":"other"}]}}}})"),
              patch("completions", at.Jobs("a"), R"({"spec":{"completions":7}})"),
              patch("the selector of pods", at.Jobs("a"), R"({"spec":{"selector":{"matchLabels":{"a":"b"}}}})"),
              patch("stale version", at.Jobs("a"), R"({"metadata":{"resourceVersion":"${old:a}","labels":{"z":"1"}}})"),
              patch("right version", at.Jobs("a"), R"({"metadata":{"resourceVersion":"${rv:a}","labels":{"z":"1"}}})"),
              patch("another uid", at.Jobs("a"), R"({"metadata":{"uid":"other"}})"),
              patch("right uid", at.Jobs("a"), R"({"metadata":{"uid":"${uid:a}","labels":{"z":"2"}}})"),
              patch("another name", at.Jobs("a"), R"({"metadata":{"name":"b"}})"),
              patch("another namespace", at.Jobs("a"), R"({"metadata":{"namespace":"team"}})"),
              patch("generation and creation are left", at.Jobs("a"),
                    R"({"metadata":{"generation":99,"creationTimestamp":"2020-01-01T00:00:00Z"}})"),
              patch("a deletion by hand", at.Jobs("a"), R"({"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z"}})"),
              patch("a bad label", at.Jobs("a"), R"({"metadata":{"labels":{"z":"a b"}}})"),
              patch("a label that is a number", at.Jobs("a"), R"({"metadata":{"labels":{"z":1}}})"),
              patch("the status is left", at.Jobs("a"), R"({"status":{"active":2}})"),
              patch("start, and a selector with it", at.Jobs("a"),
                    R"({"spec":{"suspend":false,"template":{"spec":{"nodeSelector":{"pool":"b"}}}}})"),
              patch("a selector while running", at.Jobs("a"),
                    R"({"spec":{"template":{"spec":{"nodeSelector":{"pool":"c"}}}}})"),
              patch("stop", at.Jobs("a"), R"({"spec":{"suspend":true}})"),
              patch("of what is not there", at.Jobs("nobody"), "{}"),
              patch("not JSON", at.Jobs("a"), "{"),
              patch("a list", at.Jobs("a"), "[]"),
              {"another type of patch", "PATCH", at.Jobs("a"), "{}", "application/json"},
              {"a queue", "POST", at.Queues(), QueueText("q")},
              patch("queue: label", at.Queues("q"), R"({"metadata":{"labels":{"y":"2"}}})"),
              patch("queue: nothing", at.Queues("q"), "{}"),
              patch("queue: spec", at.Queues("q"), R"({"spec":{"stopPolicy":"Hold"}})"),
              patch("queue: stale", at.Queues("q"), R"({"metadata":{"resourceVersion":"${old:q}"}})"),
              patch("queue: another uid", at.Queues("q"), R"({"metadata":{"uid":"other"}})"),
              patch("queue: status is left", at.Queues("q"), R"({"status":{"pendingWorkloads":2}})"),
              patch("queue: another version in the body", at.Queues("q"), R"({"apiVersion":"kueue.x-k8s.io/v1beta1"})"),
              patch("queue: by the other version", at.OldQueues("q"), R"({"metadata":{"labels":{"y":"3"}}})"),
              patch("queue: another name", at.Queues("q"), R"({"metadata":{"name":"b"}})"),
              patch("queue: generation is left", at.Queues("q"), R"({"metadata":{"generation":99}})"),
          });
}

TEST_CASE("JSON patches") {
  const Place at{"patching"};
  const auto patch = [&](std::string title, std::string body) {
    return Step{std::move(title), "PATCH", at.Jobs("a"), std::move(body), kJsonPatch};
  };
  Compare(
      at.ns, {at.Jobs()},
      {
          {"make", "POST", at.Jobs(), JobText("a", R"(,"labels":{"x":"1"})", R"(,"suspend":true)")},
          patch("nothing", "[]"),
          patch("a test of an annotation where there are none",
                R"([{"op":"test","path":"/metadata/annotations/x","value":null}])"),
          patch("a test of the absent map", R"([{"op":"test","path":"/metadata/annotations","value":null}])"),
          patch("an annotation where there are none", R"([{"op":"add","path":"/metadata/annotations/x","value":"1"}])"),
          patch("the map", R"([{"op":"add","path":"/metadata/annotations","value":{"muster.dev/x":"1","t":"a<b&c"}}])"),
          patch("a test of an absent key", R"([{"op":"test","path":"/metadata/annotations/y","value":null}])"),
          patch("a test that holds, and an addition",
                R"([{"op":"test","path":"/metadata/annotations/muster.dev~1x","value":"1"},
                    {"op":"add","path":"/metadata/annotations/y","value":"2"}])"),
          patch("a test that fails, and an addition",
                R"([{"op":"test","path":"/metadata/annotations/muster.dev~1x","value":"2"},
                    {"op":"add","path":"/metadata/annotations/z","value":"2"}])"),
          patch("a test of text with signs", R"([{"op":"test","path":"/metadata/annotations/t","value":"a<b&c"}])"),
          patch("a test of escaped text",
                R"([{"op":"test","path":"/metadata/annotations/t","value":"a\u003cb\u0026c"}])"),
          patch("a test of the uid", R"([{"op":"test","path":"/metadata/uid","value":"${uid:a}"}])"),
          patch("a test of another uid", R"([{"op":"test","path":"/metadata/uid","value":"other"}])"),
          patch("a test of the generation", R"([{"op":"test","path":"/metadata/generation","value":1}])"),
          patch("a test of a number as text", R"([{"op":"test","path":"/metadata/generation","value":"1"}])"),
          patch("a test of suspend", R"([{"op":"test","path":"/spec/suspend","value":true}])"),
          patch("a test without a value", R"([{"op":"test","path":"/metadata/labels/none"}])"),
          patch("a test of an element",
                R"([{"op":"test","path":"/spec/template/spec/containers/0/name","value":"main"}])"),
          patch("a test past the end",
                R"([{"op":"test","path":"/spec/template/spec/containers/5/name","value":"main"}])"),
          patch("a test of an object", R"([{"op":"test","path":"/status","value":{}}])"),
          patch("add replaces", R"([{"op":"add","path":"/metadata/annotations/y","value":"3"}])"),
          patch("add without a change", R"([{"op":"add","path":"/metadata/annotations/y","value":"3"}])"),
          patch("replace", R"([{"op":"replace","path":"/metadata/annotations/y","value":"4"}])"),
          patch("replace what is not there", R"([{"op":"replace","path":"/metadata/annotations/none","value":"4"}])"),
          patch("remove", R"([{"op":"remove","path":"/metadata/annotations/y"}])"),
          patch("remove what is not there", R"([{"op":"remove","path":"/metadata/annotations/y"}])"),
          patch("remove where there is no map", R"([{"op":"remove","path":"/metadata/nothing/y"}])"),
          patch("move", R"([{"op":"move","from":"/metadata/annotations/t","path":"/metadata/annotations/u"}])"),
          patch("copy", R"([{"op":"copy","from":"/metadata/annotations/u","path":"/metadata/annotations/v"}])"),
          patch("move what is not there", R"([{"op":"move","from":"/metadata/annotations/t","path":"/metadata/x"}])"),
          patch("an unknown operation", R"([{"op":"merge","path":"/metadata","value":{}}])"),
          patch("no path", R"([{"op":"add","value":{}}])"),
          patch("a null annotation", R"([{"op":"add","path":"/metadata/annotations/n","value":null}])"),
          patch("a number as annotation", R"([{"op":"add","path":"/metadata/annotations/n","value":1}])"),
          patch("no operations", "[]"),
          patch("an object", "{}"),
          patch("not JSON", "["),
          patch("a toleration list", R"([{"op":"add","path":"/spec/template/spec/tolerations","value":
                [{"key":"a","operator":"Exists"}]}])"),
          patch("one more at its end", R"([{"op":"add","path":"/spec/template/spec/tolerations/-","value":
                {"key":"b","operator":"Exists"}}])"),
          patch("one in its middle", R"([{"op":"add","path":"/spec/template/spec/tolerations/1","value":
                {"key":"c","operator":"Exists"}}])"),
          patch("one past its end", R"([{"op":"add","path":"/spec/template/spec/tolerations/9","value":
                {"key":"d","operator":"Exists"}}])"),
          patch("the last of them goes", R"([{"op":"remove","path":"/spec/template/spec/tolerations/-1"}])"),
          patch("the first of them goes", R"([{"op":"remove","path":"/spec/template/spec/tolerations/0"}])"),
          patch("a stale version", R"([{"op":"replace","path":"/metadata/resourceVersion","value":"${old:a}"}])"),
          patch("the right version", R"([{"op":"replace","path":"/metadata/resourceVersion","value":"${rv:a}"},
                {"op":"add","path":"/metadata/annotations/w","value":"1"}])"),
          patch("an invalid value", R"([{"op":"add","path":"/spec/parallelism","value":-2}])"),
          patch("the wrong type", R"([{"op":"add","path":"/spec/parallelism","value":"two"}])"),
          patch("another name", R"([{"op":"replace","path":"/metadata/name","value":"b"}])"),
          patch("start with everything",
                R"([{"op":"test","path":"/metadata/uid","value":"${uid:a}"},
                    {"op":"test","path":"/spec/suspend","value":true},
                    {"op":"add","path":"/metadata/annotations/muster.dev~1admission","value":"{}"},
                    {"op":"add","path":"/spec/template/spec/nodeSelector","value":{"pool":"a"}},
                    {"op":"add","path":"/spec/suspend","value":false}])"),
          {"what is not there", "PATCH", at.Jobs("nobody"), "[]", kJsonPatch},
          {"without labels", "POST", at.Jobs(), JobText("b")},
          {"nothing", "PATCH", at.Jobs("b"), "[]", kJsonPatch},
          {"nothing again", "PATCH", at.Jobs("b"), "[]", kJsonPatch},
          {"a queue", "POST", at.Queues(), QueueText("q", R"(,"annotations":{"t":"a<b"})")},
          {"queue: test and add", "PATCH", at.Queues("q"),
           R"([{"op":"test","path":"/metadata/annotations/t","value":"a<b"},
               {"op":"add","path":"/metadata/labels","value":{"x":"1"}}])",
           kJsonPatch},
          {"queue: failing test", "PATCH", at.Queues("q"),
           R"([{"op":"test","path":"/spec/stopPolicy","value":"Hold"}])", kJsonPatch},
      });
}

TEST_CASE("The status as a subresource") {
  const Place at{"status"};
  const auto status = [&](std::string title, const std::string& name, std::string body) {
    return Step{std::move(title), "PATCH", at.Jobs(name + "/status"), std::move(body), kMergePatch};
  };
  const auto selector = [&](std::string title, const std::string& pool) {
    return Step{std::move(title), "PATCH", at.Jobs("a"),
                R"({"spec":{"template":{"spec":{"nodeSelector":{"pool":")" + pool + R"("}}}}})", kMergePatch};
  };
  const std::string suspended = R"({"type":"Suspended","status":"True","reason":"JobSuspended","message":"m",
      "lastProbeTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z"})";
  const auto condition = [](const std::string& type) {
    return R"({"type":")" + type + R"(","status":"True","reason":"R","message":"m",
      "lastProbeTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z"})";
  };
  Compare(
      at.ns, {at.Jobs(), at.Queues()},
      {
          {"make", "POST", at.Jobs(), JobText("a", "", R"(,"suspend":true)")},
          {"read", "GET", at.Jobs("a/status")},
          status("suspended", "a", R"({"status":{"conditions":[)" + suspended + "]}}"),
          status("nothing", "a", "{}"),
          status("the spec is left", "a", R"({"spec":{"suspend":false,"parallelism":9}})"),
          status("labels are taken", "a", R"({"metadata":{"labels":{"x":"1"}}})"),
          status("negative", "a", R"({"status":{"active":-1}})"),
          status("started while suspended, not seen to be", "a",
                 R"({"status":{"startTime":"2026-01-01T00:00:00Z","conditions":[]}})"),
          selector("a selector then", "a"),
          status("seen to be suspended", "a", R"({"status":{"conditions":[)" + suspended + "]}}"),
          selector("a selector then", "b"),
          status("a pod is left", "a", R"({"status":{"active":1}})"),
          selector("a selector then", "c"),
          status("no pod is left", "a", R"({"status":{"active":0,"startTime":null}})"),
          {"start", "PATCH", at.Jobs("a"), R"({"spec":{"suspend":false}})", kMergePatch},
          status("running", "a",
                 R"({"status":{"startTime":"2026-01-02T00:00:00Z","active":1,"ready":1,"terminating":0,
                   "uncountedTerminatedPods":{},"conditions":[]}})"),
          status("another start", "a", R"({"status":{"startTime":"2026-01-03T00:00:00Z"}})"),
          status("more ready than active", "a", R"({"status":{"ready":2}})"),
          status(
              "complete without saying why", "a",
              R"({"status":{"active":0,"ready":0,"succeeded":1,"completionTime":"2026-01-04T00:00:00Z","conditions":[)" +
                  condition("Complete") + "]}}"),
          status("successful", "a",
                 R"({"status":{"active":0,"ready":0,"succeeded":1,"conditions":[)" + condition("SuccessCriteriaMet") +
                     "]}}"),
          status("complete", "a",
                 R"({"status":{"completionTime":"2026-01-04T00:00:00Z","conditions":[)" +
                     condition("SuccessCriteriaMet") + "," + condition("Complete") + "]}}"),
          status("complete no more", "a", R"({"status":{"completionTime":null,"conditions":[]}})"),
          status("fewer successes", "a", R"({"status":{"succeeded":0}})"),
          {"another Job", "POST", at.Jobs(), JobText("b")},
          status("failed without saying why", "b",
                 R"({"status":{"startTime":"2026-01-02T00:00:00Z","failed":1,"conditions":[)" + condition("Failed") +
                     "]}}"),
          status("failing", "b",
                 R"({"status":{"startTime":"2026-01-02T00:00:00Z","failed":1,"conditions":[)" +
                     condition("FailureTarget") + "]}}"),
          status("failed", "b",
                 R"({"status":{"conditions":[)" + condition("FailureTarget") + "," + condition("Failed") + "]}}"),
          status("of what is not there", "nobody", "{}"),
          {"replace", "PUT", at.Jobs("b/status"), WholeJobText("b", R"(,"resourceVersion":"${old:b}")", "")},
          {"replace, of this version", "PUT", at.Jobs("b/status"),
           WholeJobText("b", R"(,"resourceVersion":"${rv:b}")", R"(,"parallelism":5)")},
          {"a queue with a status", "POST", at.Queues(), QueueText("q", "", R"(,"status":{"pendingWorkloads":3})")},
          {"queue: status", "PATCH", at.Queues("q/status"), R"({"status":{"pendingWorkloads":4}})", kMergePatch},
          {"queue: the same", "PATCH", at.Queues("q/status"), R"({"status":{"pendingWorkloads":4}})", kMergePatch},
          {"queue: spec and labels are left", "PATCH", at.Queues("q/status"),
           R"({"metadata":{"labels":{"a":"b"}},"spec":{"stopPolicy":"Hold"}})", kMergePatch},
          {"queue: stale", "PATCH", at.Queues("q/status"),
           R"({"metadata":{"resourceVersion":"${old:q}"},"status":{"pendingWorkloads":5}})", kMergePatch},
          {"queue: another uid", "PATCH", at.Queues("q/status"),
           R"({"metadata":{"uid":"other"},"status":{"pendingWorkloads":5}})", kMergePatch},
          {"queue: the other version", "PATCH", at.OldQueues("q/status"), R"({"status":{"pendingWorkloads":6}})",
           kMergePatch},
          {"queue: by tests", "PATCH", at.Queues("q/status"),
           R"([{"op":"test","path":"/status/pendingWorkloads","value":6},
               {"op":"add","path":"/status/admittedWorkloads","value":1}])",
           kJsonPatch},
          {"queue: replace", "PUT", at.Queues("q/status"),
           QueueText("q", R"(,"resourceVersion":"${rv:q}")", R"(,"status":{"pendingWorkloads":7})")},
          {"queue: replace without version", "PUT", at.Queues("q/status"), QueueText("q")},
          {"a flavor has no status", "GET", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors/x/status"},
          {"a map has no status", "PATCH", at.ConfigMaps("x/status"), "{}", kMergePatch},
      });
}

TEST_CASE("Deletion: preconditions, propagation, finalizers") {
  const Place at{"deletion"};
  const std::string held = R"(,"finalizers":["example.com/hold"])";
  const auto remove = [&](std::string title, std::string target, std::string body = "") {
    return Step{std::move(title), "DELETE", std::move(target), std::move(body)};
  };
  Compare(at.ns, {at.Jobs(), at.Queues()},
          {
              {"make", "POST", at.Jobs(), JobText("a")},
              remove("another uid", at.Jobs("a"), R"({"preconditions":{"uid":"other"}})"),
              remove("another version", at.Jobs("a"), R"({"preconditions":{"resourceVersion":"1"}})"),
              remove("an unknown policy", at.Jobs("a"), R"({"propagationPolicy":"Sideways"})"),
              remove("in the background, by its uid", at.Jobs("a"),
                     R"({"propagationPolicy":"Background","preconditions":{"uid":"${uid:a}"}})"),
              remove("again", at.Jobs("a")),
              {"under the same name", "POST", at.Jobs(), JobText("a")},
              remove("in the foreground", at.Jobs("a"), R"({"propagationPolicy":"Foreground"})"),
              remove("in the foreground again", at.Jobs("a"), R"({"propagationPolicy":"Foreground"})"),
              {"its name is taken", "POST", at.Jobs(), JobText("a")},
              {"a label still", "PATCH", at.Jobs("a"), R"({"metadata":{"labels":{"x":"1"}}})", kMergePatch},
              {"no finalizer any more", "PATCH", at.Jobs("a"), R"({"metadata":{"finalizers":null}})", kMergePatch},
              {"it is gone", "GET", at.Jobs("a")},
              {"one to be orphaned", "POST", at.Jobs(), JobText("b")},
              remove("without a policy", at.Jobs("b")),
              remove("by the query", at.Jobs("b?propagationPolicy=Background")),
              {"with a finalizer", "POST", at.Jobs(), JobText("c", held)},
              remove("held", at.Jobs("c"), R"({"propagationPolicy":"Background"})"),
              remove("held, again", at.Jobs("c"), R"({"propagationPolicy":"Background"})"),
              {"one more finalizer", "PATCH", at.Jobs("c"),
               R"({"metadata":{"finalizers":["example.com/hold","example.com/new"]}})", kMergePatch},
              {"suspended while it goes", "PATCH", at.Jobs("c"), R"({"spec":{"suspend":true}})", kMergePatch},
              {"released", "PATCH", at.Jobs("c"), R"([{"op":"remove","path":"/metadata/finalizers"}])", kJsonPatch},
              remove("gone", at.Jobs("c")),
              {"a queue", "POST", at.Queues(), QueueText("q", held)},
              remove("a held queue", at.Queues("q")),
              {"its finalizer", "PATCH", at.Queues("q"), R"({"metadata":{"finalizers":[]}})", kMergePatch},
              {"another queue", "POST", at.Queues(), QueueText("r")},
              remove("a queue", at.Queues("r")),
              {"a third queue", "POST", at.Queues(), QueueText("s")},
              remove("a queue in the foreground", at.Queues("s?propagationPolicy=Foreground")),
              remove("a queue, orphans", at.Queues("s?propagationPolicy=Orphan")),
              {"a map", "POST", at.ConfigMaps(), ConfigMapText("m")},
              remove("a map", at.ConfigMaps("m")),
              {"two maps", "POST", at.ConfigMaps(), ConfigMapText("n", "", R"(,"labels":{"x":"1"})")},
              {"two maps", "POST", at.ConfigMaps(), ConfigMapText("o", "", R"(,"labels":{"x":"2"})")},
              remove("those with a label", at.ConfigMaps("?labelSelector=x%3D1")),
              {"what is left", "GET", at.ConfigMaps("?labelSelector=x")},
              remove("a namespace", "/api/v1/namespaces/deletion"),
              {"nothing new in it", "POST", at.ConfigMaps(), ConfigMapText("p")},
              {"but changes", "PATCH", at.ConfigMaps("o"), R"({"data":{"a":"b"}})", kMergePatch},
          });
}

TEST_CASE("Lists and watches: pages, selectors, versions") {
  const Place at{"listing"};
  const auto map = [&](const std::string& name, const std::string& labels) {
    return Step{"make", "POST", at.ConfigMaps(), ConfigMapText(name, "", R"(,"labels":)" + labels)};
  };
  const auto list = [&](const std::string& query) { return Step{query, "GET", at.ConfigMaps("?" + query)}; };
  const auto label = [&](const std::string& name, const std::string& labels) {
    return Step{"label", "PATCH", at.ConfigMaps(name), R"({"metadata":{"labels":)" + labels + "}}", kMergePatch};
  };
  Compare(
      at.ns,
      {at.ConfigMaps(), at.ConfigMaps("?labelSelector=tier%3Dgold"), at.ConfigMaps("?fieldSelector=metadata.name%3Db")},
      {
          list("limit=1"),
          map("a", R"({"tier":"gold"})"),
          map("b", R"({"tier":"tin","x":""})"),
          map("c", "{}"),
          map("d", R"({"tier":"gold","x":"1"})"),
          list(""),
          list("limit=2"),
          list("limit=2&continue=${rv:the list}"),
          list("limit=1&labelSelector=tier"),
          list("limit=10"),
          list("labelSelector=tier%3Dgold"),
          list("labelSelector=tier%3D%3Dgold"),
          list("labelSelector=tier!%3Dgold"),
          list("labelSelector=tier%20in%20(gold,tin)"),
          list("labelSelector=tier%20notin%20(gold)"),
          list("labelSelector=!x"),
          list("labelSelector=x,tier%3Dgold"),
          list("labelSelector=x%3D"),
          list("labelSelector=tier%20in%20gold"),
          list("labelSelector=%3D%3D"),
          list("fieldSelector=metadata.name%3Db"),
          list("fieldSelector=metadata.name!%3Db"),
          list("fieldSelector=metadata.namespace%3Dlisting"),
          list("fieldSelector=spec.nothing%3Db"),
          list("resourceVersion=0"),
          list("resourceVersion=x"),
          list("resourceVersion=${rv:a}&resourceVersionMatch=Exact"),
          list("resourceVersion=${rv:a}&resourceVersionMatch=NotOlderThan"),
          list("resourceVersion=${rv:a}"),
          list("resourceVersionMatch=Exact"),
          list("resourceVersion=0&resourceVersionMatch=Exact"),
          list("limit=2&resourceVersion=${rv:a}&resourceVersionMatch=Exact"),
          list("continue=nonsense"),
          list("limit=-1"),
          list("limit=x"),
          label("c", R"({"tier":"gold"})"),
          label("a", R"({"tier":"tin"})"),
          label("a", R"({"x":"y"})"),
          label("b", R"({"tier":"gold"})"),
          label("b", R"({"tier":null})"),
          label("d", "{}"),
          {"data", "PATCH", at.ConfigMaps("d"), R"({"data":{"k":"v"}})", kMergePatch},
          {"gone", "DELETE", at.ConfigMaps("d")},
          {"gone", "DELETE", at.ConfigMaps("b")},
          {"typed items", "GET", at.Jobs()},
          {"custom items", "GET", at.Queues()},
          {"of a namespace that is not there", "GET", Place{"nowhere"}.Jobs()},
          {"of no such resource", "GET", "/apis/batch/v1/nothing"},
      });
}

}  // namespace
}  // namespace muster::scenarios
