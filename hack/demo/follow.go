package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

func (d *demo) printReady(kubeconfig string, images []sample) {
	d.say("Ready")
	fmt.Printf(`
  UI                 http://%s/
  All results        curl -s http://%[1]s/scan-results
  kubectl            export KUBECONFIG=%s
                     kubectl get scanners
`, d.api, kubeconfig)
	for _, image := range images {
		if image.name == oneMore {
			fmt.Printf("  One more image     kubectl run one-more --image=%s\n", image.reference)
		}
	}
	fmt.Print("\n  Ctrl-C stops all of it.\n\n")
}

type overview struct {
	Images struct {
		Pending, Failed, Catalogued, Scanned int
	} `json:"images"`
	Counts struct {
		Critical, High, KEV int
	} `json:"counts"`
	Database *struct{ Source string } `json:"database"`
}

// follow prints progress until ctx ends or the operator does.
func (d *demo) follow(ctx context.Context, operator *process, samples bool) error {
	var last overview
	toldSample := false
	deadline := time.After(resultsTimeout)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := d.overview(ctx)
		if err == nil && now.Images != last.Images {
			d.say("Images: %d scanned, %d waiting, %d failed; findings: %d critical, %d high, %d known to be exploited",
				now.Images.Scanned, now.Images.Pending+now.Images.Catalogued, now.Images.Failed,
				now.Counts.Critical, now.Counts.High, now.Counts.KEV)
			last = now
		}
		if err == nil && !toldSample && now.Database != nil && now.Database.Source == "sample" {
			d.say("The official vulnerability database could not be reached (yet): the small sample database is in use")
			toldSample = true
		}
		done := last.Images.Scanned > 0 && last.Images.Pending+last.Images.Catalogued == 0
		if d.once && done {
			return nil
		}
		select {
		case <-ctx.Done():
			fmt.Println()
			d.say("Stopping")
			return nil
		case <-operator.ended:
			return fmt.Errorf("the operator ended: %v", operator.err) //nolint:errorlint // may be nil
		case <-deadline:
			if samples && !done {
				d.say("The sample images have no results after %s; the operator's log says why", resultsTimeout)
			}
			if d.once {
				return fmt.Errorf("no results within %s", resultsTimeout)
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
