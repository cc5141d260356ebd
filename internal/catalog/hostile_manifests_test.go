package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// TestHostileManifests changes a sound manifest in one place each.
func TestHostileManifests(t *testing.T) {
	registry := newRegistry(t)
	image := debian(t)
	registry.push(t, image)
	raw, err := image.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	const oci = types.OCIManifestSchema1
	for name, test := range map[string]struct {
		change func(m *v1.Manifest)
		limits Limits
		reason model.Reason
		phrase string
	}{
		"too large":         {func(m *v1.Manifest) { m.Layers[0].Size = 9 << 30 }, Limits{}, model.ReasonImageTooLarge, "8589934592"},
		"sum overflows":     {func(m *v1.Manifest) { m.Layers = append(m.Layers, m.Layers[0]); m.Layers[0].Size = 1<<63 - 1 }, Limits{}, model.ReasonImageTooLarge, "limit"},
		"own limit":         {func(*v1.Manifest) {}, Limits{ImageBytes: 100}, model.ReasonImageTooLarge, "limit of 100"},
		"negative size":     {func(m *v1.Manifest) { m.Layers[0].Size = -1 }, Limits{}, model.ReasonCatalogFailed, "-1 bytes"},
		"states too little": {func(m *v1.Manifest) { m.Layers[0].Size-- }, Limits{}, model.ReasonCatalogFailed, "larger than"},
		"states too much":   {func(m *v1.Manifest) { m.Layers[0].Size++ }, Limits{}, model.ReasonRegistryUnavailable, "received "},
		"foreign URL":       {func(m *v1.Manifest) { m.Layers[0].URLs = []string{"http://169.254.169.254/"} }, Limits{}, model.ReasonNotPullable, "foreign"},
		"foreign type":      {func(m *v1.Manifest) { m.Layers[0].MediaType = types.DockerForeignLayer }, Limits{}, model.ReasonNotPullable, "foreign"},
		"artifact":          {func(m *v1.Manifest) { m.Config.MediaType = "application/vnd.cncf.helm.config.v1+json" }, Limits{}, model.ReasonNotPullable, "artifact"},
		"large config":      {func(m *v1.Manifest) { m.Config.Size = 1 << 30 }, Limits{}, model.ReasonImageTooLarge, "configuration"},
		"config elsewhere":  {func(m *v1.Manifest) { m.Config.URLs = []string{"http://x/"} }, Limits{}, model.ReasonNotPullable, "outside"},
		"layer as config":   {func(m *v1.Manifest) { m.Config.Digest = m.Layers[0].Digest }, Limits{}, model.ReasonCatalogFailed, "configuration"},
		"config as layer":   {func(m *v1.Manifest) { m.Layers[0].Digest, m.Layers[0].Size = m.Config.Digest, m.Config.Size }, Limits{}, model.ReasonCatalogFailed, "diff ID"},
		"layer missing":     {func(m *v1.Manifest) { m.Layers[0].Digest.Hex = strings.Repeat("0", 64) }, Limits{}, model.ReasonImageNotFound, "404"},
		"more layers":       {func(m *v1.Manifest) { m.Layers = append(m.Layers, m.Layers[0]) }, Limits{}, model.ReasonCatalogFailed, "lists 1 layers"},
		"too many layers":   {func(m *v1.Manifest) { m.Layers = slices.Repeat(m.Layers, maxLayers+1) }, Limits{}, model.ReasonImageTooLarge, "512"},
		"schema 1":          {func(m *v1.Manifest) { m.SchemaVersion = 1 }, Limits{}, model.ReasonNotPullable, "schema version 1"},
	} {
		t.Run(name, func(t *testing.T) {
			manifest, err := v1.ParseManifest(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			test.change(manifest)
			changed, err := json.Marshal(manifest)
			if err != nil {
				t.Fatal(err)
			}
			var blobs int
			registry.guard = nil
			reference := registry.put(t, oci, changed)
			registry.guard = countBlobs(&blobs)
			_, err = runHostile(t, Request{Image: reference, Limits: test.limits})
			wantFailure(t, err, test.reason, test.phrase)
			if test.reason == model.ReasonImageTooLarge && blobs > 0 {
				t.Errorf("%d blobs were pulled of an image that is too large", blobs)
			}
		})
	}
}

// Indexes that do not lead to an image, and content that is not what its digest says.
func TestHostileIndexes(t *testing.T) {
	registry := newRegistry(t)
	registry.push(t, debian(t))
	served := map[string][]byte{}
	registry.guard = func(w http.ResponseWriter, r *http.Request) bool {
		content, found := served[path.Base(r.URL.Path)]
		if found {
			w.Header().Set("Content-Type", string(types.OCIImageIndex))
			_, _ = w.Write(content)
		}
		return !found
	}
	put := func(content any) v1.Descriptor {
		raw, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		served[hashOf(raw).String()] = raw
		return v1.Descriptor{MediaType: types.OCIImageIndex, Digest: hashOf(raw), Size: int64(len(raw))}
	}
	index := func(children ...v1.Descriptor) v1.IndexManifest {
		return v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: children}
	}
	nowhere := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: hashOf([]byte("nowhere")), Size: 9, Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}
	deep := put(index(nowhere))
	for range maxIndexDepth + 1 {
		deep = put(index(deep))
	}
	itself := nowhere
	itself.Platform = &v1.Platform{OS: strings.Repeat("evil", 1000), Architecture: "\x1b[31m"}
	foreign := nowhere
	foreign.URLs = []string{"https://169.254.169.254/"}
	algorithm := nowhere
	algorithm.Digest = v1.Hash{Algorithm: "sha512", Hex: strings.Repeat("0", 128)}
	for name, test := range map[string]struct {
		descriptor v1.Descriptor
		reason     model.Reason
		phrase     string
	}{
		"nested too deep":   {deep, model.ReasonNotPullable, "deeper than the limit of 3"},
		"too many images":   {put(index(slices.Repeat([]v1.Descriptor{nowhere}, maxIndexEntries+1)...)), model.ReasonNotPullable, "more than the limit of 1000"},
		"no image":          {put(index()), model.ReasonNotPullable, ""},
		"odd platforms":     {put(index(itself, itself)), model.ReasonPlatformMismatch, "contains no image for"},
		"leads nowhere":     {put(index(nowhere)), model.ReasonImageNotFound, "404"},
		"a foreign address": {put(index(foreign)), model.ReasonImageNotFound, "404"},
		"another algorithm": {put(index(algorithm)), model.ReasonImageNotFound, "404"},
		"a list as a map":   {put(map[string]any{"schemaVersion": 2, "mediaType": types.OCIImageIndex, "manifests": map[string]int{"a": 1}}), model.ReasonNotPullable, ""},
		"deep JSON":         {put(json.RawMessage(strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000))), model.ReasonNotPullable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			platform := model.Platform{OS: "linux", Architecture: "amd64"}
			_, err := runHostile(t, Request{Image: registry.host + "/team/app@" + test.descriptor.Digest.String(), Platform: platform})
			wantFailure(t, err, test.reason, test.phrase)
			if message := OutcomeOf(err).Message; strings.Contains(message, "\x1b") || len(message) > 2000 {
				t.Errorf("the message is %q", message)
			}
		})
	}
}

// A tag that names another image with every request, and a layer that is another one with every attempt.
func TestHostileChanges(t *testing.T) {
	registry := newRegistry(t)
	content := debianTar(t)
	layer := newRawLayer(content, content)
	reference := registry.push(t, imageOf(t, layer))
	var served atomic.Int32
	t.Run("a layer", func(t *testing.T) {
		registry.guard = only(layer.mustDigest(), func(w http.ResponseWriter, _ *http.Request) {
			changed := bytes.Replace(content, []byte("1.1.1k-1"), fmt.Appendf(nil, "9.9.9z-%d", served.Add(1)%10), 1)
			_, _ = w.Write(changed)
		})
		_, err := runHostile(t, Request{Image: reference})
		wantFailure(t, err, model.ReasonCatalogFailed, "it was modified in transit")
		if served.Load() != 1 {
			t.Errorf("a layer that was modified is asked for %d times", served.Load())
		}
	})
	t.Run("a tag", func(t *testing.T) {
		registry.guard = only("/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			child := hashOf(fmt.Appendf(nil, "%d", served.Add(1)))
			w.Header().Set("Content-Type", string(types.OCIImageIndex))
			_ = json.NewEncoder(w).Encode(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{
				{MediaType: types.OCIImageIndex, Digest: child, Size: 1},
			}})
		})
		tag, _, _ := strings.Cut(reference, "@")
		_, err := runHostile(t, Request{Image: tag + ":latest"})
		wantFailure(t, err, model.ReasonCatalogFailed, "it was modified in transit")
	})
	for name, length := range map[string]int{"less than announced": len(content) + 1, "more than announced": len(content) - 1} {
		t.Run(name, func(t *testing.T) {
			registry.guard = only(layer.mustDigest(), func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(length))
				_, _ = w.Write(content)
			})
			_, err := runHostile(t, Request{Image: reference})
			wantFailure(t, err, model.ReasonRegistryUnavailable, "interrupted")
		})
	}
}

// mustDigest is the digest as it is in addresses.
func (l *rawLayer) mustDigest() string { return hashOf(l.compressed).String() }

// While some registries send next to nothing, the scans of other images go on.
func TestHostileNeighbors(t *testing.T) {
	slow := newRegistry(t)
	reference := slow.push(t, debian(t))
	entered := make(chan struct{}, 100)
	slow.guard = func(w http.ResponseWriter, r *http.Request) bool {
		entered <- struct{}{}
		return only("/blobs/", trickle(http.StatusOK))(w, r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const scans = 8
	scratch := t.TempDir()
	failures := make(chan error, scans)
	for range scans {
		go func() {
			_, err := Run(ctx, Request{Image: reference, ScratchDir: scratch, sleep: noSleep})
			failures <- err
		}()
	}
	for range scans {
		<-entered
	}
	result, err := runHostile(t, Request{Image: newRegistry(t).push(t, debian(t))})
	wantSound(t, result, err)
	cancel()
	for range scans {
		wantFailure(t, <-failures, model.ReasonDeadlineExceeded, "")
	}
}
