// Shapes: one object for equal ones, taints and labels as the pod scheduler and kueue_semantics 5.6 see them.
#include "muster/gang/shape.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <vector>

namespace muster::gang {

namespace {

Shape Asking(int64_t cpu) {
  Shape shape;
  shape.requests["cpu"] = Amount{cpu};
  return shape;
}

Toleration Tolerate(const std::string& key, const std::string& op, const std::string& value,
                    const std::string& effect = "") {
  Toleration toleration;
  toleration.key = key;
  toleration.op = op;
  toleration.value = value;
  toleration.effect = effect;
  return toleration;
}

uint64_t HashOf(const Shape& shape) {
  StateHash hash;
  AddToHash(shape, &hash);
  return hash.value();
}

}  // namespace

TEST_CASE("equal shapes are one object for as long as somebody uses it") {
  ShapeTable table;
  ShapePtr a = table.Intern(Asking(1));
  const ShapePtr b = table.Intern(Asking(1));
  const ShapePtr c = table.Intern(Asking(2));
  CHECK(a == b);
  CHECK(a != c);
  CHECK(table.size() == 2);
  a.reset();
  CHECK(table.size() == 2);  // b has it
  CHECK(table.Intern(Asking(1)) == b);
}

TEST_CASE("shapes that nobody uses are forgotten") {
  ShapeTable table;
  for (int64_t cpu = 0; cpu < 1000; ++cpu) table.Intern(Asking(cpu));
  CHECK(table.size() == 0);
}

TEST_CASE("any difference makes another shape") {
  const Shape plain = Asking(1);
  std::vector<Shape> others(6, plain);
  others[0].requests["memory"] = Amount{0};  // asks for none of it, which is not the same as nothing said
  others[1].node_selector["zone"] = "a";
  others[2].tolerations = {Tolerate("k", "Exists", "")};
  others[3].required_affinity = {NodeSelectorTerm{}};
  others[4].required_affinity = {NodeSelectorTerm{{{"k", Requirement::Operator::kExists, {}}}, {}}};
  others[5].required_affinity = {NodeSelectorTerm{{}, {{"k", Requirement::Operator::kExists, {}}}}};
  ShapeTable table;
  std::vector<ShapePtr> interned = {table.Intern(plain)};
  for (const Shape& other : others) {
    CHECK(HashOf(other) != HashOf(plain));
    interned.push_back(table.Intern(other));
  }
  CHECK(table.size() == others.size() + 1);
}

TEST_CASE("the hash depends on what a shape says alone") {
  CHECK(rc::check([](const std::map<std::string, int64_t>& requests) {
    Shape one;
    Shape other;
    for (auto it = requests.begin(); it != requests.end(); ++it) one.requests[it->first] = Amount{it->second};
    for (auto it = requests.rbegin(); it != requests.rend(); ++it) other.requests[it->first] = Amount{it->second};
    RC_ASSERT(HashOf(one) == HashOf(other));
    other.requests["one more"] = Amount{1};
    RC_ASSERT(HashOf(one) != HashOf(other) || one.requests.contains("one more"));
  }));
}

TEST_CASE("a toleration meets a taint by effect, key, operator and value") {
  const Taint taint{"gpu", "a100", "NoSchedule"};
  CHECK(Tolerate("gpu", "Equal", "a100").Tolerates(taint));
  CHECK(Tolerate("gpu", "", "a100").Tolerates(taint));  // Equal by default
  CHECK(Tolerate("gpu", "Exists", "").Tolerates(taint));
  CHECK(Tolerate("", "Exists", "").Tolerates(taint));
  CHECK(Tolerate("gpu", "Equal", "a100", "NoSchedule").Tolerates(taint));
  CHECK_FALSE(Tolerate("gpu", "Equal", "h100").Tolerates(taint));
  CHECK_FALSE(Tolerate("cpu", "Exists", "").Tolerates(taint));
  CHECK_FALSE(Tolerate("gpu", "Exists", "", "NoExecute").Tolerates(taint));
  CHECK_FALSE(Tolerate("", "Equal", "").Tolerates(Taint{"gpu", "", "NoSchedule"}));
}

TEST_CASE("only taints that keep pods away count, and either list may tolerate them") {
  const std::vector<Taint> taints = {{"soft", "", "PreferNoSchedule"}, {"a", "", "NoSchedule"}, {"b", "", "NoExecute"}};
  const std::vector<Toleration> a = {Tolerate("a", "Exists", "")};
  const std::vector<Toleration> b = {Tolerate("b", "Exists", "")};
  CHECK(FirstUntolerated(taints, {}, {})->key == "a");
  CHECK(FirstUntolerated(taints, a, {})->key == "b");
  CHECK(FirstUntolerated(taints, b, {})->key == "a");
  CHECK(FirstUntolerated(taints, a, b) == nullptr);
}

TEST_CASE("only the flavor's own label keys are looked at, selector and affinity each") {
  const Labels flavor = {{"zone", "a"}};
  Shape shape;
  CHECK(MismatchedSelector(shape, flavor) == nullptr);
  CHECK(MatchesAffinity(shape, flavor));
  shape.node_selector = {{"zone", "a"}, {"disk", "ssd"}};
  CHECK(MismatchedSelector(shape, flavor) == nullptr);
  shape.node_selector = {{"zone", "b"}};
  REQUIRE(MismatchedSelector(shape, flavor) != nullptr);
  CHECK(*MismatchedSelector(shape, flavor) == "zone");
  CHECK(MatchesAffinity(shape, flavor));
  using Operator = Requirement::Operator;
  const Requirement in_b{"zone", Operator::kIn, {"b"}};
  const Requirement in_a{"zone", Operator::kIn, {"a"}};
  const Requirement other{"disk", Operator::kIn, {"ssd"}};
  shape.required_affinity = {{{in_b}, {}}};
  CHECK_FALSE(MatchesAffinity(shape, flavor));
  shape.required_affinity = {{{in_b}, {}}, {{in_a, other}, {}}};  // either term
  CHECK(MatchesAffinity(shape, flavor));
  shape.required_affinity = {{{in_b}, {}}, {{other}, {}}};  // nothing is left of the second: no constraint
  CHECK(MatchesAffinity(shape, flavor));
}

}  // namespace muster::gang
