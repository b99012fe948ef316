// What is free in the domains of flavors, and who may use it. Expected amounts are counted by hand; the rules are those
// of kueue_semantics 9.9.3.
#include "muster/gang/topology_book.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

namespace muster::gang {

namespace {

const std::string kRack = "rack";
const std::string kHost(kHostnameLabel);

Node Machine(const std::string& name, const std::string& rack, int64_t cpu, int64_t pods = 110) {
  Node node;
  node.name = name;
  node.labels = {{kRack, rack}, {kHost, name}};
  node.ready = true;
  node.allocatable = {{"cpu", Amount{cpu}}, {"pods", Amount{pods}}};
  return node;
}

ShapePtr Cpu(int64_t cpu) {
  Shape shape;
  shape.requests["cpu"] = Amount{cpu};
  return std::make_shared<const Shape>(std::move(shape));
}

FlavorNodes By(const std::vector<std::string>& levels, Labels labels = {}) {
  return {{"topo", levels}, std::move(labels), {}};
}

PodSetToPlace Pods(int64_t count, ShapePtr shape, TopologyRequest request = {}, const std::string& name = "main") {
  return {name, std::move(shape), count, std::move(request)};
}

TopologyRequest Required(const std::string& level) {
  TopologyRequest request;
  request.required = level;
  return request;
}

// "n1:2 n2:1"; the problem's numbers where there is none.
std::string Where(const Placement& placement, size_t pod_set = 0) {
  if (placement.problem.has_value()) {
    return std::to_string(placement.problem->fit) + " of " + std::to_string(placement.problem->wanted);
  }
  std::string text;
  for (const TopologyDomain& domain : placement.assignments[pod_set]->domains) {
    if (!text.empty()) text += " ";
    for (const std::string& value : domain.values) text += value + ":";
    text += std::to_string(domain.count);
  }
  return text;
}

PlacedPodSet Placed(const std::string& flavor, ShapePtr shape, const Placement& placement, size_t pod_set = 0) {
  return {flavor, std::move(shape), *placement.assignments[pod_set]};
}

void Take(TopologyBook* book, const PlacedPodSet& placed) {
  for (const PlaceBook of : kPlaceBooks) book->Take(placed, of);
}

void Release(TopologyBook* book, const PlacedPodSet& placed) {
  for (const PlaceBook of : kPlaceBooks) book->Release(placed, of);
}

void Validate(const TopologyBook& book, const std::vector<PlacedPodSet>& placed) {
  for (const PlaceBook of : kPlaceBooks) book.Validate(placed, of);
}

// Racks r1 {n1: 4, n2: 2} and r2 {n3: 3}.
void AddMachines(TopologyBook* book) {
  book->SetNode(Machine("n1", "r1", 4));
  book->SetNode(Machine("n2", "r1", 2));
  book->SetNode(Machine("n3", "r2", 3));
}

}  // namespace

TEST_CASE("a node counts with what it has left, and only while it is of use") {
  TopologyBook book;
  AddMachines(&book);
  book.SetFlavor("f", By({kRack, kHost}));
  CHECK(Where(book.Place("f", {Pods(9, Cpu(1))}, PlaceView::kBoth)) == "n1:4 n2:2 n3:3");
  CHECK(Where(book.Place("f", {Pods(10, Cpu(1))}, PlaceView::kBoth)) == "9 of 10");

  // A pod of 2 cpu on n1, one on a node that comes later, and one that overruns n3.
  CHECK(book.SetPod("p1", "n1", {{"cpu", Amount{2}}}));
  CHECK_FALSE(book.SetPod("p1", "n1", {{"cpu", Amount{2}}}));
  CHECK(book.SetPod("p2", "n4", {{"cpu", Amount{1}}}));
  CHECK(book.SetPod("p3", "n3", {{"cpu", Amount{5}}}));
  CHECK(Where(book.Place("f", {Pods(9, Cpu(1))}, PlaceView::kBoth)) == "4 of 9");
  CHECK(book.SetNode(Machine("n4", "r2", 2)));
  CHECK(Where(book.Place("f", {Pods(9, Cpu(1))}, PlaceView::kBoth)) == "5 of 9");
  CHECK(book.RemovePod("p3"));
  CHECK_FALSE(book.RemovePod("p3"));
  CHECK(Where(book.Place("f", {Pods(9, Cpu(1))}, PlaceView::kBoth)) == "8 of 9");

  Node cordoned = Machine("n2", "r1", 2);
  cordoned.unschedulable = true;
  CHECK(book.SetNode(cordoned));
  CHECK(Where(book.Place("f", {Pods(9, Cpu(1))}, PlaceView::kBoth)) == "6 of 9");
  Node lost = Machine("n1", "r1", 4);
  lost.ready = false;
  CHECK(book.SetNode(lost));
  CHECK(Where(book.Place("f", {Pods(9, Cpu(1))}, PlaceView::kBoth)) == "4 of 9");
  Node without_rack = Machine("n3", "r2", 3);
  without_rack.labels.erase(kRack);
  CHECK(book.SetNode(without_rack));
  CHECK(Where(book.Place("f", {Pods(9, Cpu(1))}, PlaceView::kBoth)) == "1 of 9");
  CHECK(book.RemoveNode("n4"));
  const Placement none = book.Place("f", {Pods(9, Cpu(1))}, PlaceView::kBoth);
  REQUIRE(none.problem.has_value());
  CHECK(none.problem->kind == PlacementProblem::Kind::kNoDomains);
  CHECK(none.problem->level == kHost);
}

TEST_CASE("each pod takes one of the node's pods") {
  TopologyBook book;
  book.SetNode(Machine("n1", "r1", 100, 3));
  book.SetFlavor("f", By({kHost}));
  book.SetPod("p", "n1", {});
  const Placement placement = book.Place("f", {Pods(3, Cpu(1))}, PlaceView::kBoth);
  CHECK(Where(placement) == "2 of 3");
  CHECK(placement.problem->exclusions == Exclusions{1, 0, 0, {}, {}});
  book.SetPod("q", "n1", {});
  book.SetPod("r", "n1", {});
  CHECK(book.Place("f", {Pods(3, Cpu(1))}, PlaceView::kBoth).problem->exclusions.resources ==
        std::map<std::string, int64_t, std::less<>>{{"pods", 1}});
}

TEST_CASE("taints, selector and affinity keep pods from nodes where the lowest level is the node") {
  TopologyBook book;
  AddMachines(&book);
  Node tainted = Machine("n1", "r1", 4);
  tainted.taints = {{"gpu", "", "NoSchedule"}, {"old", "yes", "PreferNoSchedule"}};
  book.SetNode(tainted);
  FlavorNodes tolerant = By({kRack, kHost});
  tolerant.tolerations = {{"gpu", "Exists", "", "", false, 0}};
  book.SetFlavor("f", By({kRack, kHost}));
  book.SetFlavor("tolerant", tolerant);
  book.SetFlavor("racks", By({kRack}));

  Shape picky = *Cpu(1);
  picky.node_selector = {{kRack, "r1"}};
  const Placement selected = book.Place("f", {Pods(3, std::make_shared<const Shape>(picky))}, PlaceView::kBoth);
  CHECK(Where(selected) == "2 of 3");
  CHECK(selected.problem->exclusions == Exclusions{3, 1, 0, {{"gpu:NoSchedule", 1}}, {}});
  CHECK(Where(book.Place("tolerant", {Pods(3, std::make_shared<const Shape>(picky))}, PlaceView::kBoth)) == "n1:3");

  Shape attached = *Cpu(1);
  attached.required_affinity = {{{}, {{"metadata.name", Requirement::Operator::kIn, {"n3"}}}}, {{}, {}}};
  const Placement affine = book.Place("f", {Pods(4, std::make_shared<const Shape>(attached))}, PlaceView::kBoth);
  CHECK(Where(affine) == "3 of 4");
  CHECK(affine.problem->exclusions == Exclusions{3, 0, 1, {{"gpu:NoSchedule", 1}}, {}});

  // Racks are looked at as a whole.
  CHECK(Where(book.Place("racks", {Pods(6, std::make_shared<const Shape>(picky))}, PlaceView::kBoth)) == "r1:6");
}

TEST_CASE("what claims hold is not free, and comes back with them") {
  TopologyBook book;
  AddMachines(&book);
  book.SetFlavor("f", By({kRack, kHost}));
  const Placement four = book.Place("f", {Pods(4, Cpu(1), Required(kRack))}, PlaceView::kBoth);
  CHECK(Where(four) == "n1:4");
  Take(&book, Placed("f", Cpu(1), four));
  CHECK(Where(book.Place("f", {Pods(4, Cpu(1), Required(kRack))}, PlaceView::kBoth)) == "3 of 4");
  CHECK(Where(book.Place("f", {Pods(4, Cpu(1), Required(kRack))}, PlaceView::kEmpty)) == "n1:4");
  CHECK_FALSE(book.Fits({Placed("f", Cpu(1), four)}, PlaceView::kBoth));
  // It is remembered while the node is away.
  book.RemoveNode("n1");
  CHECK_FALSE(book.Fits({Placed("f", Cpu(1), four)}, PlaceView::kBoth));
  book.SetNode(Machine("n1", "r1", 4));
  CHECK_FALSE(book.Fits({Placed("f", Cpu(1), four)}, PlaceView::kBoth));
  Validate(book, {Placed("f", Cpu(1), four)});
  Release(&book, Placed("f", Cpu(1), four));
  CHECK(book.Fits({Placed("f", Cpu(1), four)}, PlaceView::kBoth));
  // Two pod sets of one workload count together.
  CHECK_FALSE(book.Fits({Placed("f", Cpu(1), four), Placed("f", Cpu(1), four)}, PlaceView::kBoth));
  Validate(book, {});
}

TEST_CASE("pod sets of one workload do not get the same room") {
  TopologyBook book;
  AddMachines(&book);
  book.SetFlavor("f", By({kRack, kHost}));
  const std::vector<PodSetToPlace> both = {Pods(3, Cpu(1), Required(kRack), "a"),
                                           Pods(3, Cpu(1), Required(kRack), "b")};
  const Placement placement = book.Place("f", both, PlaceView::kBoth);
  CHECK(Where(placement, 0) == "n3:3");
  CHECK(Where(placement, 1) == "n1:3");
  CHECK(book.Fits({Placed("f", Cpu(1), placement, 0), Placed("f", Cpu(1), placement, 1)}, PlaceView::kBoth));
}

TEST_CASE("a leader and its workers are in one domain, and the leader's own selector counts") {
  TopologyBook book;
  AddMachines(&book);
  book.SetFlavor("f", By({kRack, kHost}));
  TopologyRequest request = Required(kRack);
  request.group = "g";
  const Placement together =
      book.Place("f", {Pods(1, Cpu(2), request, "leader"), Pods(2, Cpu(1), request, "workers")}, PlaceView::kBoth);
  // Rack r2 has 3 cpu, which is not enough for both; in r1 the leader goes where it costs the least.
  CHECK(Where(together, 0) == "n1:1");
  CHECK(Where(together, 1) == "n1:2");
  Shape picky = *Cpu(2);
  picky.node_selector = {{kHost, "n2"}};
  const Placement apart = book.Place(
      "f", {Pods(1, std::make_shared<const Shape>(picky), request, "leader"), Pods(2, Cpu(1), request, "workers")},
      PlaceView::kBoth);
  CHECK(Where(apart, 0) == "n2:1");
  CHECK(Where(apart, 1) == "n1:2");
}

TEST_CASE("flavors that share nodes do not give the same room twice") {
  TopologyBook book;
  AddMachines(&book);
  Node other = Machine("n4", "r1", 5);
  other.labels["pool"] = "b";
  Node shared = Machine("n2", "r1", 2);
  shared.labels["pool"] = "b";
  book.SetNode(other);
  book.SetNode(shared);
  // By node: one entry.
  book.SetFlavor("a", By({kHost}));
  book.SetFlavor("b", By({kHost}, {{"pool", "b"}}));
  const PlacedPodSet on_n2{"a", Cpu(1), {{kHost}, {{{"n2"}, 2}}}};
  Take(&book, on_n2);
  CHECK(Where(book.Place("b", {Pods(6, Cpu(1))}, PlaceView::kBoth)) == "5 of 6");
  Release(&book, on_n2);

  // By rack: b's rack r1 is n2 and n4, a's n1, n2 and n4. What b holds there is a's whole; what a holds may be on n1 or
  // on b's nodes, and may fill those.
  book.SetFlavor("a", By({kRack}));
  book.SetFlavor("b", By({kRack}, {{"pool", "b"}}));
  const PlacedPodSet of_b{"b", Cpu(1), {{kRack}, {{{"r1"}, 3}}}};
  Take(&book, of_b);
  CHECK(Where(book.Place("a", {Pods(8, Cpu(1), Required(kRack))}, PlaceView::kBoth)) == "r1:8");
  CHECK(Where(book.Place("a", {Pods(9, Cpu(1), Required(kRack))}, PlaceView::kBoth)) == "8 of 9");
  Release(&book, of_b);
  const PlacedPodSet of_a{"a", Cpu(1), {{kRack}, {{{"r1"}, 4}}}};
  Take(&book, of_a);
  CHECK(Where(book.Place("b", {Pods(4, Cpu(1), Required(kRack))}, PlaceView::kBoth)) == "3 of 4");
  Take(&book, of_a);
  CHECK(Where(book.Place("b", {Pods(4, Cpu(1), Required(kRack))}, PlaceView::kBoth)) == "0 of 4");
  Validate(book, {of_a, of_a});
}

TEST_CASE("a held assignment whose levels are not those of the topology any more counts on its nodes") {
  TopologyBook book;
  AddMachines(&book);
  book.SetFlavor("f", By({kHost}));
  Take(&book, {"f", Cpu(1), {{kRack}, {{{"r2"}, 2}}}});
  CHECK(Where(book.Place("f", {Pods(8, Cpu(1))}, PlaceView::kBoth)) == "7 of 8");
}

TEST_CASE("a request that the topology cannot serve is named") {
  using Kind = PlacementProblem::Kind;
  TopologyBook book;
  AddMachines(&book);
  book.SetFlavor("f", By({kRack, kHost}));
  const auto problem = [&](TopologyRequest request) {
    const Placement placement = book.Place("f", {Pods(2, Cpu(1), std::move(request))}, PlaceView::kBoth);
    return placement.problem.value_or(PlacementProblem{}).kind;
  };
  CHECK(problem(Required("zone")) == Kind::kNoLevel);
  CHECK_FALSE(book.HasLevels("f", Required("zone")));
  CHECK(book.HasLevels("f", Required(kRack)));
  TopologyRequest slices = Required(kHost);
  slices.slices = {{kRack, 2}};
  CHECK(problem(slices) == Kind::kSlicesAbove);
  slices = Required(kRack);
  slices.slices = {{kRack, 0}};
  CHECK(problem(slices) == Kind::kSliceSize);
  slices.slices = {{kRack, 3}, {kHost, 2}};
  CHECK(problem(slices) == Kind::kSliceSize);
  slices.slices = {{kHost, 2}, {kRack, 1}};
  CHECK(problem(slices) == Kind::kSlicesAbove);
  CHECK(book.FlavorsOfNode("n1") == std::vector<std::string>{"f"});
}

TEST_CASE("pods that lose their node get other places where the rest of their gang is") {
  // kueue_semantics 9.9.7. Racks r1 {n1, n2} and r2 {n3, n4}, of 4 cpu each.
  TopologyBook book;
  for (const auto& [name, rack] : {std::pair("n1", "r1"), {"n2", "r1"}, {"n3", "r2"}, {"n4", "r2"}}) {
    book.SetNode(Machine(name, rack, 4));
  }
  book.SetFlavor("f", By({kRack, kHost}));
  using Domains = std::vector<TopologyDomain>;
  const auto replaced = [&](const TopologyRequest& request, const Domains& held, const std::string& node) {
    int64_t count = 0;
    for (const TopologyDomain& domain : held) count += domain.count;
    const TopologyAssignment assignment{{kHost}, held};
    const PlacedPodSet placed{"f", Cpu(1), assignment};
    for (const PlaceBook of : kPlaceBooks) book.Take(placed, of);
    const auto other = book.Replace("f", {Pods(count, Cpu(1), request)}, {assignment}, node);
    for (const PlaceBook of : kPlaceBooks) book.Release(placed, of);
    return other.has_value() ? other->at(0).domains : Domains{};
  };
  // Its rack has two places left, and not three, however many the other has.
  CHECK(replaced(Required(kRack), {{{"n1"}, 2}, {{"n2"}, 2}}, "n1") == Domains{{{"n2"}, 4}});
  CHECK(replaced(Required(kRack), {{{"n1"}, 3}, {{"n2"}, 2}}, "n1").empty());
  // Nobody is left to be with.
  CHECK(replaced(Required(kRack), {{{"n1"}, 4}}, "n1") == Domains{{{"n2"}, 4}});
  TopologyRequest preferred;
  preferred.preferred = kRack;
  CHECK(replaced(preferred, {{{"n1"}, 3}, {{"n2"}, 2}}, "n1") == Domains{{{"n2"}, 2}, {{"n3"}, 3}});
  // Two each in one rack: one that is lost stays with the other, and two go together where there is room.
  TopologyRequest slices;
  slices.slices = {{kRack, 2}};
  CHECK(replaced(slices, {{{"n1"}, 1}, {{"n2"}, 1}, {{"n3"}, 2}}, "n1") == Domains{{{"n2"}, 2}, {{"n3"}, 2}});
  book.SetPod("stranger", "n2", {{"cpu", Amount{3}}});
  CHECK(replaced(slices, {{{"n1"}, 1}, {{"n2"}, 1}, {{"n3"}, 2}}, "n1").empty());
  book.RemovePod("stranger");
  CHECK(replaced(slices, {{{"n1"}, 2}, {{"n2"}, 4}}, "n1") == Domains{{{"n2"}, 4}, {{"n3"}, 2}});
  // The last slice is the smaller one: what is lost is the rest of the whole one.
  CHECK(replaced(slices, {{{"n1"}, 1}, {{"n2"}, 1}, {{"n3"}, 1}}, "n1") == Domains{{{"n2"}, 2}, {{"n3"}, 1}});
  // One slice is lost as a whole: it need not be where the smaller last one is.
  TopologyRequest four;
  four.slices = {{kRack, 4}};
  CHECK(replaced(four, {{{"n1"}, 4}, {{"n2"}, 2}, {{"n3"}, 4}}, "n3") ==
        Domains{{{"n1"}, 4}, {{"n2"}, 2}, {{"n4"}, 4}});
  // The node is gone, and another one that cannot take more pods keeps those that it has.
  book.RemoveNode("n1");
  Node cordoned = Machine("n3", "r2", 4);
  cordoned.unschedulable = true;
  book.SetNode(cordoned);
  CHECK(replaced(preferred, {{{"n1"}, 1}, {{"n3"}, 2}}, "n1") == Domains{{{"n3"}, 2}, {{"n2"}, 1}});
  // Where those are, who has to be in one rack with them cannot be told.
  CHECK(replaced(Required(kRack), {{{"n3"}, 2}, {{"n4"}, 1}}, "n4").empty());
}

TEST_CASE("whatever comes and goes, nothing that is placed has more than there is") {
  CHECK(rc::check([] {
    TopologyBook book;
    const std::vector<std::string> racks = {"r1", "r2"};
    const auto any_node = [&] {
      const int number = *rc::gen::inRange(1, 5);
      Node node =
          Machine("n" + std::to_string(number), racks[static_cast<size_t>(number % 2)], *rc::gen::inRange(0, 6), 4);
      if (*rc::gen::inRange(0, 2) == 1) node.labels["pool"] = "b";
      return node;
    };
    const bool by_host = *rc::gen::inRange(0, 2) == 1;
    const std::vector<std::string> levels =
        by_host ? std::vector<std::string>{kRack, kHost} : std::vector<std::string>{kRack};
    book.SetFlavor("a", By(levels));
    book.SetFlavor("b", By(levels, {{"pool", "b"}}));
    std::vector<PlacedPodSet> placed;
    for (int step = 0; step < 12; ++step) {
      switch (*rc::gen::inRange(0, 4)) {
        case 0:
          book.SetNode(any_node());
          break;
        case 1:
          if (!placed.empty()) {
            Release(&book, placed.back());
            placed.pop_back();
          }
          break;
        default: {
          const std::string flavor = *rc::gen::inRange(0, 2) == 0 ? "a" : "b";
          const ShapePtr shape = Cpu(*rc::gen::inRange(1, 3));
          const Placement placement = book.Place(flavor, {Pods(*rc::gen::inRange(1, 5), shape)}, PlaceView::kBoth);
          if (placement.problem.has_value()) break;
          const PlacedPodSet one = Placed(flavor, shape, placement);
          RC_ASSERT(book.Fits({one}, PlaceView::kBoth));
          Take(&book, one);
          placed.push_back(one);
        }
      }
      Validate(book, placed);
    }
  }));
}

}  // namespace muster::gang
