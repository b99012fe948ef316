// Command observer watches a cluster from outside and judges it. It reads raw JSON from the API server,
// shares no code with Muster, and knows nothing of its annotations: only Jobs, Pods and queue objects.
//
// The watch on Jobs delivers every state of every Job in the order in which the API server made them true,
// so replaying it gives each moment exactly. After each event it checks
//
//   - quota: in every ClusterQueue and cohort, what started Jobs ask for is within quota;
//   - gangs: no pod belongs to a Job that was never started, none stays without a place, and every Job that ends
//     well had all of its pods at once or in turn.
//
// It ends with status 0 when all expected Jobs have ended and nothing was wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig in JSON (kubectl config view --raw --flatten -o json)")
	expect := flag.Int("expect", 0, "end once this many Jobs have ended (0: at the time limit or a signal)")
	limit := flag.Duration("limit", 10*time.Minute, "give up after this time")
	table := flag.Duration("table", 2*time.Second, "interval of the live table (0: none)")
	needWait := flag.Bool("need-waiting", false, "it is a failure if no Job had to wait")
	needBorrow := flag.Bool("need-borrowing", false, "it is a failure if no ClusterQueue borrowed")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()

	api, err := connect(*kubeconfig)
	if err != nil {
		fail(err)
	}
	w := newWorld()
	if err := w.readQueues(ctx, api); err != nil {
		fail(err)
	}
	events := make(chan event, 4096)
	failed := make(chan error, 2)
	for kind, path := range map[string]string{"Job": "/apis/batch/v1/jobs", "Pod": "/api/v1/pods"} {
		go func() { failed <- api.follow(ctx, kind, path, events) }()
	}
	if err := observe(ctx, w, events, failed, *expect, *table); err != nil {
		fail(err)
	}
	w.printTable(os.Stdout, time.Now())
	w.judgePods()
	problems := w.problems
	if *needWait && w.waited == 0 {
		problems = append(problems, "no Job had to wait")
	}
	if *needBorrow && w.borrowed == 0 {
		problems = append(problems, "no ClusterQueue borrowed")
	}
	if *expect > 0 && w.ended() < *expect {
		problems = append(problems, fmt.Sprintf("%d of %d Jobs ended", w.ended(), *expect))
	}
	w.printSummary(os.Stdout)
	for _, p := range problems {
		fmt.Println("WRONG:", p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// observe applies events until enough Jobs have ended, the time is up or a watch fails.
func observe(ctx context.Context, w *world, events <-chan event, failed <-chan error, expect int, every time.Duration) error {
	var tick <-chan time.Time
	if every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		tick = ticker.C
	}
	for expect == 0 || w.ended() < expect {
		select {
		case e := <-events:
			w.apply(e)
		case now := <-tick:
			w.printTable(os.Stdout, now)
		case err := <-failed:
			if ctx.Err() == nil && err != nil {
				return err
			}
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				w.problems = append(w.problems, "the time limit was reached")
			}
			return nil
		}
	}
	return nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "observer:", err)
	os.Exit(2)
}
