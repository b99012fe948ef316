package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"time"
)

type jobObject struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Suspend     bool `json:"suspend"`
		Parallelism *int `json:"parallelism"`
		Completions *int `json:"completions"`
		Template    struct {
			Spec struct {
				NodeSelector map[string]string `json:"nodeSelector"`
				Containers   []struct {
					Resources struct {
						Requests map[string]quantity `json:"requests"`
					} `json:"resources"`
				} `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		Active     int `json:"active"`
		Succeeded  int `json:"succeeded"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

const queueLabel = "kueue.x-k8s.io/queue-name"

func (o *jobObject) has(condition string) bool {
	for _, c := range o.Status.Conditions {
		if c.Type == condition && c.Status == "True" {
			return true
		}
	}
	return false
}

func (o *jobObject) pods() int {
	pods := 1
	if o.Spec.Parallelism != nil {
		pods = *o.Spec.Parallelism
	}
	if o.Spec.Completions != nil && *o.Spec.Completions < pods {
		pods = *o.Spec.Completions
	}
	return pods
}

// left is how many pods can still run at once, since others have ended.
func (o *jobObject) left() int {
	pods := o.pods()
	if o.Spec.Completions == nil {
		return max(pods-o.Status.Succeeded, 0)
	}
	return min(pods, max(*o.Spec.Completions-o.Status.Succeeded, 0))
}

// applyJob moves one Job to its new state and checks the quotas it touches.
func (w *world) applyJob(e event) {
	var o jobObject
	if err := json.Unmarshal(e.raw, &o); err != nil {
		w.wrong("a Job cannot be read: %v", err)
		return
	}
	q := w.queues[w.local[o.Metadata.Namespace+"/"+o.Metadata.Labels[queueLabel]]]
	if q == nil {
		return
	}
	j := w.jobs[o.Metadata.UID]
	if j == nil {
		j = &job{key: o.Metadata.Namespace + "/" + o.Metadata.Name, queue: q.name,
			created: o.Metadata.CreationTimestamp, parallel: o.pods()}
		w.jobs[o.Metadata.UID] = j
		q.waiting++
	}
	finished := o.has("Complete") || o.has("Failed")
	running := !finished && e.verb != "DELETED" && (!o.Spec.Suspend || o.Status.Active > 0)
	if running && j.holding == nil {
		w.begin(q, j, &o, e.seen)
	} else if j.holding != nil {
		w.hold(q, j, o.left())
	}
	if o.Status.Active+o.Status.Succeeded >= j.parallel {
		j.full = true
	}
	if !running && j.holding != nil {
		w.end(q, j)
	}
	if e.verb == "DELETED" && !j.done && !j.deleted {
		j.deleted = true
		q.waiting--
	}
	if finished && !j.done && !j.deleted {
		j.done = true
		q.done++
		q.waiting--
		if o.has("Complete") && !j.full {
			w.wrong("Job %s is complete, but never had all of its %d pods", j.key, j.parallel)
		}
	}
}

func (w *world) begin(q *clusterQueue, j *job, o *jobObject, now time.Time) {
	if !j.started {
		j.started, j.start = true, now
		wait := max(now.Sub(j.created), 0)
		q.waits = append(q.waits, wait)
		// Creation times are whole seconds, so less than two seconds may be none.
		if wait > 2*time.Second {
			w.waited++
		}
	}
	j.each = map[slot]*big.Rat{}
	for _, c := range o.Spec.Template.Spec.Containers {
		for resource, request := range c.Resources.Requests {
			s, ok := w.slotOf(q, o, resource)
			if !ok {
				continue
			}
			if j.each[s] == nil {
				j.each[s] = new(big.Rat)
			}
			j.each[s].Add(j.each[s], request.value)
		}
	}
	q.running++
	j.holding = map[slot]*big.Rat{}
	w.hold(q, j, o.left())
	for s := range j.holding {
		w.checkQuota(q, s, j)
	}
}

// hold books so many of the Job's pods.
func (w *world) hold(q *clusterQueue, j *job, pods int) {
	for s, each := range j.each {
		total := new(big.Rat).Mul(each, big.NewRat(int64(pods), 1))
		q.used[s].Add(q.used[s], total)
		if before := j.holding[s]; before != nil {
			q.used[s].Sub(q.used[s], before)
		}
		j.holding[s] = total
	}
}

func (w *world) end(q *clusterQueue, j *job) {
	q.running--
	for s, amount := range j.holding {
		q.used[s].Sub(q.used[s], amount)
	}
	j.holding = nil
}

// slotOf tells which flavor serves a resource of a started Job: the one whose node labels its pods carry.
func (w *world) slotOf(q *clusterQueue, o *jobObject, resource string) (slot, bool) {
	var found []slot
	for _, s := range q.order {
		if s.resource != resource {
			continue
		}
		matches := true
		for k, v := range w.flavors[s.flavor] {
			matches = matches && o.Spec.Template.Spec.NodeSelector[k] == v
		}
		if matches {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		if slices.ContainsFunc(q.order, func(s slot) bool { return s.resource == resource }) {
			w.wrong("Job %s/%s runs without the node selector of any flavor of %s", o.Metadata.Namespace, o.Metadata.Name, resource)
		}
		return slot{}, false
	}
	return found[0], true
}

func (w *world) checkQuota(q *clusterQueue, s slot, j *job) {
	limit := q.quotas[s]
	if limit.borrowing != nil && q.used[s].Cmp(new(big.Rat).Add(limit.nominal, limit.borrowing)) > 0 {
		w.wrong("with Job %s ClusterQueue %s uses %s of %v, above nominal + borrowingLimit", j.key, q.name, show(q.used[s]), s)
	}
	if over := new(big.Rat).Sub(q.used[s], limit.nominal); over.Sign() > 0 {
		if q.cohort == "" {
			w.wrong("with Job %s ClusterQueue %s uses %s of %v, above its quota %s", j.key, q.name, show(q.used[s]), s, show(limit.nominal))
			return
		}
		w.borrowed++
		if over.Cmp(q.peakBorrowed[s]) > 0 {
			q.peakBorrowed[s].Set(over)
		}
	}
	if q.cohort == "" {
		return
	}
	// What a member lends not is its own; all else of the cohort is one pool.
	pool, used := new(big.Rat), new(big.Rat)
	if own := w.cohortQuota[q.cohort][s]; own != nil {
		pool.Add(pool, own)
	}
	for _, member := range w.queues {
		quota, ok := member.quotas[s]
		if member.cohort != q.cohort || !ok {
			continue
		}
		kept := new(big.Rat)
		if quota.lending != nil && quota.lending.Cmp(quota.nominal) < 0 {
			kept.Sub(quota.nominal, quota.lending)
		}
		pool.Add(pool, new(big.Rat).Sub(quota.nominal, kept))
		if above := new(big.Rat).Sub(member.used[s], kept); above.Sign() > 0 {
			used.Add(used, above)
		}
	}
	if used.Cmp(pool) > 0 {
		w.wrong("with Job %s cohort %s uses %s of %v, above its %s", j.key, q.cohort, show(used), s, show(pool))
	}
}

type podCondition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	Reason string `json:"reason"`
}

// applyPod checks that pods exist only for started Jobs and find a node.
func (w *world) applyPod(e event) {
	var o struct {
		Metadata meta `json:"metadata"`
		Status   struct {
			Conditions []podCondition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(e.raw, &o); err != nil {
		w.wrong("a Pod cannot be read: %v", err)
		return
	}
	for _, owner := range o.Metadata.OwnerReferences {
		if owner.Kind == "Job" {
			w.podOwners[owner.UID] = o.Metadata.Namespace + "/" + o.Metadata.Name
		}
	}
	w.noteScheduling(e.seen, e.verb, o.Metadata, o.Status.Conditions)
}

// patience is how long the scheduler may take to learn that a finished pod has left its node.
const patience = 5 * time.Second

// noteScheduling keeps since when a pod has had no place, and judges how long that lasted.
func (w *world) noteScheduling(now time.Time, verb string, m meta, conditions []podCondition) {
	for _, c := range conditions {
		if c.Type != "PodScheduled" {
			continue
		}
		key := m.Namespace + "/" + m.Name
		since, homeless := w.homeless[key]
		switch {
		case c.Status == "False" && c.Reason == "Unschedulable" && verb != "DELETED":
			if !homeless {
				w.homeless[key] = now
			}
		case homeless:
			delete(w.homeless, key)
			if now.Sub(since) > patience {
				w.wrong("Pod %s of a started gang had no place for %v", key, now.Sub(since).Round(time.Second))
			}
		}
	}
}

// judgePods is for the end: Pods and Jobs come over two watches, so only then is it certain that a Job was
// never started.
func (w *world) judgePods() {
	for pod := range w.homeless {
		w.wrong("Pod %s of a started gang has no place at the end", pod)
	}
	for uid, pod := range w.podOwners {
		if j := w.jobs[uid]; j != nil && !j.started {
			w.wrong("Pod %s exists, but its Job %s was never started", pod, j.key)
		}
	}
}

func show(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	return r.FloatString(3)
}

func percentile(waits []time.Duration, percent int) time.Duration {
	if len(waits) == 0 {
		return 0
	}
	sorted := slices.Clone(waits)
	slices.Sort(sorted)
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

func (w *world) printTable(out io.Writer, now time.Time) {
	fmt.Fprintf(out, "\n%s\n%-16s %-12s %8s %8s %6s  %-32s %9s %9s\n", now.Format("15:04:05"),
		"CLUSTERQUEUE", "COHORT", "WAITING", "RUNNING", "DONE", "IN USE / NOMINAL (BORROWED)", "WAIT p50", "WAIT max")
	for _, name := range w.names {
		q := w.queues[name]
		use := ""
		for _, s := range q.order {
			if use != "" {
				use += ", "
			}
			use += fmt.Sprintf("%s/%s", show(q.used[s]), show(q.quotas[s].nominal))
			if over := new(big.Rat).Sub(q.used[s], q.quotas[s].nominal); over.Sign() > 0 {
				use += fmt.Sprintf(" (%s)", show(over))
			}
		}
		fmt.Fprintf(out, "%-16s %-12s %8d %8d %6d  %-32s %9s %9s\n", q.name, q.cohort, q.waiting-q.running, q.running, q.done, use,
			percentile(q.waits, 50).Round(100*time.Millisecond), percentile(q.waits, 100).Round(100*time.Millisecond))
	}
}

func (w *world) printSummary(out io.Writer) {
	fmt.Fprintf(out, "\n%d of %d Jobs ended, %d had to wait; %d events observed\n", w.ended(), len(w.jobs), w.waited, w.events)
	for _, name := range w.names {
		q := w.queues[name]
		for _, s := range q.order {
			if q.peakBorrowed[s].Sign() > 0 {
				fmt.Fprintf(out, "ClusterQueue %s borrowed up to %s of %s (flavor %s)\n", q.name, show(q.peakBorrowed[s]), s.resource, s.flavor)
			}
		}
	}
}
