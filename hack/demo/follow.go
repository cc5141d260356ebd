package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"time"
)

// printReady prints where everything is, and for the local cluster three things to try.
func (d *demo) printReady(kubeconfig string, simulated bool) {
	d.say("Ready")
	fmt.Printf(`
  UI            http://%[1]s/
  All reports   curl -s http://%[1]s/scan-results
`, d.api)
	if simulated {
		fmt.Printf(`
  Try it in a second terminal, in this directory:

     export KUBECONFIG=%[4]s

  1. Deploy another image and see its scan in the UI
     %[3]s create deployment python --image=%[2]s/samples/python-app:latest

  2. Change the image of a Deployment and see which findings this opened and closed: http://%[1]s/rollouts
     %[3]s set image deployment/alpine '*=%[2]s/samples/debian:latest'

  3. Watch the events of scans and rollouts, in a third terminal
     bin/demo -address=%[1]s watch
`, d.api, d.registry, kubectl(), kubeconfig)
	}
	fmt.Print("\n  Ctrl-C stops everything.\n\n")
}

// kubectl is the user's kubectl, or that of the local cluster, which is built when it is first used.
func kubectl() string {
	if _, err := exec.LookPath("kubectl"); err == nil {
		return "kubectl"
	}
	return "bin/devcluster kubectl --name=demo --"
}

type overview struct {
	Images struct {
		Pending, Failed, Cataloged, Scanned int
	} `json:"images"`
	Counts struct {
		Critical, High, KEV int
	} `json:"counts"`
	Database *struct{ Source string } `json:"database"`
}

func (o overview) String() string {
	return fmt.Sprintf("Images: %d scanned, %d waiting, %d failed; findings: %d critical, %d high, %d known exploited",
		o.Images.Scanned, o.Images.Pending+o.Images.Cataloged, o.Images.Failed, o.Counts.Critical, o.Counts.High, o.Counts.KEV)
}

// follow prints progress until ctx ends or the operator does.
func (d *demo) follow(ctx context.Context, operator *process, samples bool) error {
	var last overview
	sampleReported := false
	deadline := time.After(resultsTimeout)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := d.overview(ctx)
		if err == nil && now.Images != last.Images {
			if line := now.String(); line != last.String() {
				d.say("%s", line)
			}
			last = now
		}
		if err == nil && !sampleReported && now.Database != nil && now.Database.Source == "sample" {
			d.say("The official vulnerability database is not available yet; the operator uses the small sample database")
			sampleReported = true
		}
		done := last.Images.Scanned > 0 && last.Images.Pending+last.Images.Cataloged == 0
		if d.until == firstResult && last.Images.Scanned > 0 || d.until == allResults && done {
			d.say("Reached --until=%s after %.1f s", d.until, time.Since(d.started).Seconds())
			return nil
		}
		select {
		case <-ctx.Done():
			fmt.Println()
			d.say("Stopping")
			return nil
		case <-operator.ended:
			return fmt.Errorf("the operator exited: %v", operator.err) //nolint:errorlint // may be nil
		case <-deadline:
			if samples && !done {
				d.say("Not all sample images have results after %s; see the log of the operator", resultsTimeout)
			}
			if d.until != "" {
				return fmt.Errorf("--until=%s was not reached within %s", d.until, resultsTimeout)
			}
		case <-tick.C:
		}
	}
}

func (d *demo) overview(ctx context.Context) (overview, error) {
	var o overview
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.api+"/api/v1/overview", http.NoBody)
	if err != nil {
		return o, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return o, err
	}
	defer res.Body.Close() //nolint:errcheck // read to its end
	if res.StatusCode != http.StatusOK {
		return o, fmt.Errorf("status %s", res.Status)
	}
	return o, json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&o)
}
