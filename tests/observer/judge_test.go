package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"
)

// Two queues of 4 GPUs each in one cohort; b lends 1 at most, a may borrow 2.
func testWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld()
	w.addQueueObject("resourceflavors", meta{Name: "h100"}, quotaSpec{NodeLabels: map[string]string{"gpu": "h100"}})
	for name, limits := range map[string]string{
		"a": `"borrowingLimit": 2`,
		"b": `"lendingLimit": "1"`,
	} {
		var spec quotaSpec
		text := `{"cohortName": "c", "resourceGroups": [{"flavors": [{"name": "h100", "resources": [
			{"name": "nvidia.com/gpu", "nominalQuota": "4", ` + limits + `}]}]}]}`
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		w.addQueueObject("clusterqueues", meta{Name: name}, spec)
		w.addQueueObject("localqueues", meta{Name: name, Namespace: "ns"}, quotaSpec{ClusterQueue: name})
	}
	return w
}

type jobState struct {
	queue          string
	pods, gpus     int
	suspend        bool
	active, passed int
	condition      string
}

func (w *world) see(uid string, s jobState) {
	conditions := "[]"
	if s.condition != "" {
		conditions = fmt.Sprintf(`[{"type": %q, "status": "True"}]`, s.condition)
	}
	raw := fmt.Sprintf(`{"metadata": {"name": %q, "namespace": "ns", "uid": %q, "creationTimestamp": "2026-01-01T00:00:00Z",
		"labels": {"kueue.x-k8s.io/queue-name": %q}}, "spec": {"suspend": %v, "parallelism": %d, "completions": %d,
		"template": {"spec": {"nodeSelector": {"gpu": "h100"}, "containers": [{"resources": {"requests": {"nvidia.com/gpu": %d}}}]}}},
		"status": {"active": %d, "succeeded": %d, "conditions": %s}}`,
		uid, uid, s.queue, s.suspend, s.pods, s.pods, s.gpus, s.active, s.passed, conditions)
	w.apply(event{"Job", "MODIFIED", json.RawMessage(raw), time.Date(2026, 1, 1, 0, 0, 9, 0, time.UTC)})
}

func expectProblem(t *testing.T, w *world, part string) {
	t.Helper()
	if len(w.problems) == 0 || !strings.Contains(strings.Join(w.problems, "\n"), part) {
		t.Errorf("problems %q do not tell of %q", w.problems, part)
	}
}

func TestALifeWithinQuotaIsFine(t *testing.T) {
	w := testWorld(t)
	w.see("j", jobState{queue: "a", pods: 2, gpus: 2, suspend: true})
	w.see("j", jobState{queue: "a", pods: 2, gpus: 2})
	w.see("j", jobState{queue: "a", pods: 2, gpus: 2, active: 2})
	w.see("j", jobState{queue: "a", pods: 2, gpus: 2, passed: 2, condition: "Complete"})
	if len(w.problems) > 0 || w.ended() != 1 || w.queues["a"].used[slot{"h100", "nvidia.com/gpu"}].Sign() != 0 {
		t.Errorf("problems %q, %d ended", w.problems, w.ended())
	}
	// Seen started nine seconds after its creation.
	if w.waited != 1 {
		t.Errorf("%d waited", w.waited)
	}
}

func TestBorrowingIsSeenAndLimited(t *testing.T) {
	w := testWorld(t)
	w.see("j1", jobState{queue: "a", pods: 1, gpus: 5}) // 4 own and the 1 that b lends
	if w.borrowed != 1 || len(w.problems) > 0 {
		t.Errorf("%d borrowed, problems %q", w.borrowed, w.problems)
	}
	w.see("j2", jobState{queue: "a", pods: 1, gpus: 1}) // b does not lend a second one
	expectProblem(t, w, "cohort c uses 6")
	w.see("j3", jobState{queue: "a", pods: 1, gpus: 1})
	expectProblem(t, w, "above nominal + borrowingLimit")
}

func TestASuspendedJobHoldsQuotaWhileItsPodsRun(t *testing.T) {
	w := testWorld(t)
	w.see("j1", jobState{queue: "b", pods: 1, gpus: 4, active: 1})
	w.see("j1", jobState{queue: "b", pods: 1, gpus: 4, active: 1, suspend: true})
	w.see("j2", jobState{queue: "b", pods: 1, gpus: 5})
	// 9 of b's own 4 and a's 4; b keeps 3 of its own, so 6 of a pool of 5.
	expectProblem(t, w, "cohort c uses 6")
}

func TestWhatHasEndedOfAGangHoldsNothing(t *testing.T) {
	w := testWorld(t)
	w.see("j1", jobState{queue: "a", pods: 4, gpus: 1, active: 4})
	w.see("j1", jobState{queue: "a", pods: 4, gpus: 1, active: 1, passed: 3})
	w.see("j2", jobState{queue: "a", pods: 1, gpus: 4})
	if len(w.problems) > 0 {
		t.Errorf("problems %q", w.problems)
	}
	w.see("j3", jobState{queue: "a", pods: 1, gpus: 1})
	expectProblem(t, w, "above")
}

func TestAGangThatNeverWasWholeIsWrong(t *testing.T) {
	w := testWorld(t)
	w.see("j", jobState{queue: "a", pods: 3, gpus: 1, active: 2})
	w.see("j", jobState{queue: "a", pods: 3, gpus: 1, passed: 2, condition: "Complete"})
	expectProblem(t, w, "never had all of its 3 pods")
}

func TestAPodOfAJobThatNeverStartedIsWrong(t *testing.T) {
	w := testWorld(t)
	w.see("j", jobState{queue: "a", pods: 1, gpus: 1, suspend: true})
	w.apply(event{"Pod", "ADDED", json.RawMessage(
		`{"metadata": {"name": "p", "namespace": "ns", "ownerReferences": [{"kind": "Job", "uid": "j"}]}}`), time.Now()})
	w.judgePods()
	expectProblem(t, w, "was never started")
}

func TestOnlyALastingLackOfRoomIsWrong(t *testing.T) {
	w := testWorld(t)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := func(name, status string, after time.Duration) {
		raw := fmt.Sprintf(`{"metadata": {"name": %q, "namespace": "ns"}, "status": {"conditions": [
			{"type": "PodScheduled", "status": %q, "reason": "Unschedulable"}]}}`, name, status)
		w.apply(event{"Pod", "MODIFIED", json.RawMessage(raw), at.Add(after)})
	}
	pod("short", "False", 0)
	pod("short", "True", time.Second)
	if len(w.problems) > 0 {
		t.Errorf("problems %q", w.problems)
	}
	pod("long", "False", 0)
	pod("long", "True", time.Minute)
	expectProblem(t, w, "had no place for 1m0s")
}

func TestQuantities(t *testing.T) {
	for text, want := range map[string]*big.Rat{
		`"1500m"`: big.NewRat(3, 2), `"2Gi"`: big.NewRat(2<<30, 1), `4`: big.NewRat(4, 1), `"3k"`: big.NewRat(3000, 1),
	} {
		var q quantity
		if err := json.Unmarshal([]byte(text), &q); err != nil || q.value.Cmp(want) != 0 {
			t.Errorf("%s is read as %v, %v", text, q.value, err)
		}
	}
	var q quantity
	if json.Unmarshal([]byte(`"many"`), &q) == nil {
		t.Error("\"many\" is taken for a quantity")
	}
}
