package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// slot is one flavor's share of one resource in a ClusterQueue.
type slot struct{ flavor, resource string }

type quota struct {
	nominal   *big.Rat
	borrowing *big.Rat // nil: no limit
	lending   *big.Rat // nil: all of nominal
}

type clusterQueue struct {
	name, cohort string
	quotas       map[slot]quota
	order        []slot
	used         map[slot]*big.Rat
	peakBorrowed map[slot]*big.Rat

	waiting, running, done int
	waits                  []time.Duration
}

type job struct {
	key, queue string
	created    time.Time
	started    bool // ever
	start      time.Time
	each       map[slot]*big.Rat // what one pod asks for
	holding    map[slot]*big.Rat // nil: holds nothing
	parallel   int
	full       bool // had all its pods: active + succeeded reached what it needs
	done       bool
	deleted    bool // before it was done
}

type world struct {
	cohortQuota map[string]map[slot]*big.Rat // of Cohort objects
	flavors     map[string]map[string]string // name -> nodeLabels
	queues      map[string]*clusterQueue
	names       []string
	local       map[string]string    // namespace/name -> ClusterQueue
	jobs        map[string]*job      // by uid
	podOwners   map[string]string    // uid of a Job -> one of its pods
	homeless    map[string]time.Time // pods that are unschedulable, since when
	problems    []string
	waited      int
	borrowed    int
	events      int
}

func newWorld() *world {
	return &world{
		cohortQuota: map[string]map[slot]*big.Rat{}, flavors: map[string]map[string]string{},
		queues: map[string]*clusterQueue{}, local: map[string]string{}, jobs: map[string]*job{}, podOwners: map[string]string{}, homeless: map[string]time.Time{},
	}
}

type meta struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               string            `json:"uid"`
	CreationTimestamp time.Time         `json:"creationTimestamp"`
	Labels            map[string]string `json:"labels"`
	OwnerReferences   []struct {
		UID  string `json:"uid"`
		Kind string `json:"kind"`
	} `json:"ownerReferences"`
}

type quotaSpec struct {
	CohortName     string `json:"cohortName"`
	ClusterQueue   string `json:"clusterQueue"`
	ResourceGroups []struct {
		Flavors []struct {
			Name      string `json:"name"`
			Resources []struct {
				Name           string   `json:"name"`
				NominalQuota   quantity `json:"nominalQuota"`
				BorrowingLimit quantity `json:"borrowingLimit"`
				LendingLimit   quantity `json:"lendingLimit"`
			} `json:"resources"`
		} `json:"flavors"`
	} `json:"resourceGroups"`
	NodeLabels map[string]string `json:"nodeLabels"`
}

// quantity is a Kubernetes quantity, exact; nil where the field is absent.
type quantity struct{ value *big.Rat }

func (q *quantity) UnmarshalJSON(text []byte) error {
	s := strings.Trim(string(text), `"`)
	if s == "null" {
		return nil
	}
	factor := big.NewRat(1, 1)
	for _, unit := range []struct {
		suffix string
		value  *big.Rat
	}{
		{"Ki", power(1024, 1)}, {"Mi", power(1024, 2)}, {"Gi", power(1024, 3)}, {"Ti", power(1024, 4)}, {"Pi", power(1024, 5)},
		{"m", big.NewRat(1, 1000)}, {"k", power(1000, 1)}, {"M", power(1000, 2)}, {"G", power(1000, 3)}, {"T", power(1000, 4)},
	} {
		if strings.HasSuffix(s, unit.suffix) {
			s, factor = strings.TrimSuffix(s, unit.suffix), unit.value
			break
		}
	}
	value, ok := new(big.Rat).SetString(s)
	if !ok {
		return fmt.Errorf("quantity %s", text)
	}
	q.value = value.Mul(value, factor)
	return nil
}

func power(base, exponent int64) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(base), big.NewInt(exponent), nil))
}

// readQueues takes the queue objects as they are now; they must not change while observed.
func (w *world) readQueues(ctx context.Context, a *api) error {
	const base = "/apis/kueue.x-k8s.io/v1beta2/"
	for _, plural := range []string{"resourceflavors", "cohorts", "clusterqueues", "localqueues"} {
		l, err := a.list(ctx, base+plural)
		if err != nil {
			return err
		}
		for _, raw := range l.Items {
			var o struct {
				Metadata meta      `json:"metadata"`
				Spec     quotaSpec `json:"spec"`
			}
			if err := json.Unmarshal(raw, &o); err != nil {
				return fmt.Errorf("%s: %w", plural, err)
			}
			w.addQueueObject(plural, o.Metadata, o.Spec)
		}
	}
	return nil
}

func (w *world) addQueueObject(plural string, m meta, spec quotaSpec) {
	switch plural {
	case "resourceflavors":
		w.flavors[m.Name] = spec.NodeLabels
	case "localqueues":
		w.local[m.Namespace+"/"+m.Name] = spec.ClusterQueue
	case "cohorts":
		own := map[slot]*big.Rat{}
		for _, g := range spec.ResourceGroups {
			for _, f := range g.Flavors {
				for _, r := range f.Resources {
					own[slot{f.Name, r.Name}] = r.NominalQuota.value
				}
			}
		}
		w.cohortQuota[m.Name] = own
	case "clusterqueues":
		q := &clusterQueue{name: m.Name, cohort: spec.CohortName, quotas: map[slot]quota{},
			used: map[slot]*big.Rat{}, peakBorrowed: map[slot]*big.Rat{}}
		for _, g := range spec.ResourceGroups {
			for _, f := range g.Flavors {
				for _, r := range f.Resources {
					s := slot{f.Name, r.Name}
					q.quotas[s] = quota{r.NominalQuota.value, r.BorrowingLimit.value, r.LendingLimit.value}
					q.order = append(q.order, s)
					q.used[s] = new(big.Rat)
					q.peakBorrowed[s] = new(big.Rat)
				}
			}
		}
		w.queues[m.Name] = q
		w.names = append(w.names, m.Name)
	}
}

func (w *world) ended() int {
	n := 0
	for _, j := range w.jobs {
		if j.done {
			n++
		}
	}
	return n
}

func (w *world) wrong(format string, arguments ...any) {
	if len(w.problems) < 50 {
		w.problems = append(w.problems, fmt.Sprintf(format, arguments...))
	}
}

func (w *world) apply(e event) {
	w.events++
	switch e.kind {
	case "Job":
		w.applyJob(e)
	case "Pod":
		w.applyPod(e)
	}
}
