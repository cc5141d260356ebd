package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// buildType names the meaning of the parameters in the provenance, as SLSA asks for.
	buildType = repository + "/blob/main/docs/how-to/release.md#provenance"
	// defaultBuilderID stands for a machine of somebody who ran "make release".
	defaultBuilderID = repository + "/blob/main/docs/how-to/release.md#build-on-your-own-machine"
)

// statement is an in-toto Statement v1 with an SLSA Provenance v1 predicate.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []subject  `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type provenance struct {
	BuildDefinition struct {
		BuildType            string             `json:"buildType"`
		ExternalParameters   externalParameters `json:"externalParameters"`
		ResolvedDependencies []dependency       `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	// RunDetails has no invocation ID and no times: they would differ between builds that are equal.
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// externalParameters are what "make release" was given.
type externalParameters struct {
	Version   string   `json:"version"`
	Platforms []string `json:"platforms"`
	Image     string   `json:"image"`
}

type dependency struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// writeProvenance says of every file that is in the folder, and of the image, what it was made from.
func writeProvenance(src *source, o options, image *indexedImage, dir string) error {
	sums, err := digests(dir)
	if err != nil {
		return err
	}
	s, err := newStatement(src, o, image, sums)
	if err != nil {
		return err
	}
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	name := "scanner-operator_" + src.Version + "_provenance.intoto.json"
	return os.WriteFile(filepath.Join(dir, name), append(content, '\n'), 0o644)
}

func newStatement(src *source, o options, image *indexedImage, sums map[string]string) (*statement, error) {
	s := &statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		s.Subject = append(s.Subject, subject{Name: name, Digest: map[string]string{"sha256": sums[name]}})
	}
	s.Subject = append(s.Subject, subject{Name: image.Repository, Digest: map[string]string{image.Digest.Algorithm: image.Digest.Hex}})
	definition := &s.Predicate.BuildDefinition
	definition.BuildType = buildType
	definition.ExternalParameters = externalParameters{Version: src.Version, Image: image.Repository}
	for _, platform := range o.Platforms {
		definition.ExternalParameters.Platforms = append(definition.ExternalParameters.Platforms, platform.String())
	}
	definition.ResolvedDependencies = []dependency{{URI: "git+" + repository + "@" + src.Commit, Digest: map[string]string{"gitCommit": src.Commit}}}
	for _, lock := range []string{"go.sum", "web/package-lock.json"} {
		sum, err := fileSum(filepath.Join(src.Root, lock))
		if err != nil {
			return nil, err
		}
		definition.ResolvedDependencies = append(definition.ResolvedDependencies, dependency{Name: lock, Digest: map[string]string{"sha256": sum}})
	}
	definition.ResolvedDependencies = append(definition.ResolvedDependencies, dependency{URI: "pkg:golang/stdlib@" + strings.TrimPrefix(src.Go, "go")})
	s.Predicate.RunDetails.Builder.ID = o.BuilderID
	return s, nil
}
