package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/anchore/syft/syft/source"
	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/registries"
)

// based is an image of two layers that states its base image in its manifest, and another one in its labels.
func based(t *testing.T) v1.Image {
	t.Helper()
	image := layered(t, sound(), []tarEntry{regular("app/package.json", `{"name":"app","version":"1.0.0"}`)})
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: config.Created.AddDate(2023, 4, 5)}
	config.Config.Labels = map[string]string{model.AnnotationBaseName: "of/a:label", "token": secret}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	return mutate.Annotations(image, map[string]string{model.AnnotationBaseName: "of/an:annotation", model.AnnotationBaseDigest: "sha256:1", "token": secret}).(v1.Image)
}

// metadataOf is what an SBOM says about its image.
func metadataOf(t *testing.T, result *Result) source.ImageMetadata {
	t.Helper()
	metadata, ok := decode(t, result.SBOM).Source.Metadata.(source.ImageMetadata)
	if !ok {
		t.Fatalf("the source is a %T", decode(t, result.SBOM).Source.Metadata)
	}
	return metadata
}

// TestLayersOfRootFS: the SBOM says the same about an image that is mounted as about one that is pulled, and no layer is asked for.
func TestLayersOfRootFS(t *testing.T) {
	registry := newRegistry(t)
	image := based(t)
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: debian(t), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}},
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}})
	root := unpack(t, image)
	config, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	login := basicAuth("robot", secret)
	for name, request := range map[string]Request{
		"a manifest":       {Image: registry.push(t, image)},
		"an index":         {Image: registry.push(t, index)},
		"with credentials": {Image: registry.push(t, image), DockerConfigs: []string{dockerConfig(t, registry.host, "robot", secret)}},
	} {
		t.Run(name, func(t *testing.T) {
			registry.guard = nil
			if len(request.DockerConfigs) > 0 {
				registry.guard = login
			}
			request.Platform, request.Registries.AskLayers = amd64, true
			pulled, err := runIn(t, t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			var requests []string
			registry.guard = func(w http.ResponseWriter, r *http.Request) bool {
				requests = append(requests, r.URL.Path)
				return len(request.DockerConfigs) == 0 || login(w, r)
			}
			request.RootFS = root
			mounted, err := runIn(t, t.Context(), request)
			if err != nil || mounted.LayersUnknown != "" {
				t.Fatalf("%v, layers unknown: %q", err, mounted.LayersUnknown)
			}
			for _, path := range requests {
				if strings.Contains(path, "/blobs/") && !strings.HasSuffix(path, "/blobs/"+config.String()) {
					t.Errorf("asked for %s", path)
				}
			}
			want, got := metadataOf(t, pulled), metadataOf(t, mounted)
			// What is not known of a mounted image: the sizes of its layers without compression, and that it was pulled.
			for i := range want.Layers {
				want.Layers[i].Size = 0
			}
			want.Size, want.RepoDigests = got.Size, got.RepoDigests
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("mounted instead of pulled (-pulled +mounted):\n%s", diff)
			}
			if mounted.ManifestDigest != pulled.ManifestDigest || len(got.Layers) != 2 || got.Size == 0 || string(got.RawConfig) != `{"created":"2024-05-06T00:00:00Z"}` {
				t.Errorf("manifest %s, want %s; %+v", mounted.ManifestDigest, pulled.ManifestDigest, got)
			}
			var kept v1.Manifest
			if err := json.Unmarshal(got.RawManifest, &kept); err != nil || len(kept.Layers) != 2 || kept.Layers[0].Size <= 0 || kept.Layers[1].Size == kept.Layers[0].Size || kept.Annotations != nil {
				t.Errorf("%v, manifest %s", err, got.RawManifest)
			}
			stated := map[string]string{model.AnnotationBaseName: "of/an:annotation", model.AnnotationBaseDigest: "sha256:1"}
			if diff := cmp.Diff(stated, got.Labels); diff != "" {
				t.Errorf("stated base (-want +got):\n%s", diff)
			}
			if bytes.Contains(mounted.SBOM, []byte(secret)) {
				t.Error("the SBOM shows a secret of the image")
			}
			if diff := cmp.Diff(packageNames(decode(t, pulled.SBOM)), packageNames(decode(t, mounted.SBOM))); diff != "" {
				t.Errorf("packages (-pulled +mounted):\n%s", diff)
			}
		})
	}
}

func TestLayersOfRootFSFromMirror(t *testing.T) {
	mirror := newRegistry(t)
	reference := mirror.mirrored(t, "hub/")
	from := mirrors(mirror.host + "/hub")
	from.AskLayers = true
	result, err := runIn(t, t.Context(), Request{Image: reference, RootFS: unpack(t, layered(t, sound())), Platform: amd64, Registries: from})
	if err != nil || result.LayersUnknown != "" {
		t.Fatalf("%v, layers unknown: %q", err, result.LayersUnknown)
	}
	if layers := metadataOf(t, result).Layers; len(layers) != 1 || !strings.HasPrefix(layers[0].Digest, "sha256:") {
		t.Errorf("layers %+v", layers)
	}
}

// wantUnknown checks that a scan of a root file system found its packages without layers, and why it has none.
func wantUnknown(t *testing.T, request Request, phrases ...string) {
	t.Helper()
	request.Registries.AskLayers = true
	wantNoLayers(t, request, phrases...)
}

// wantNoLayers is wantUnknown with the configuration of the request.
func wantNoLayers(t *testing.T, request Request, phrases ...string) {
	t.Helper()
	request.RootFS, request.Platform = unpack(t, layered(t, sound())), amd64
	result, err := runIn(t, t.Context(), request)
	if err != nil {
		t.Fatalf("a scan failed because layers are not known: %v", err)
	}
	if diff := cmp.Diff(wantDebian, names(t, result)); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
	why := result.LayersUnknown
	for _, phrase := range phrases {
		if !strings.Contains(why, phrase) {
			t.Errorf("layers are not known because %q, want %q", why, phrase)
		}
	}
	if why == "" || len(why) > model.MaxLayersUnknown || strings.ContainsAny(why, "\n\x1b") || strings.Contains(why, secret) {
		t.Errorf("layers are not known because %q", why)
	}
	if layers := metadataOf(t, result).Layers; len(layers) != 1 || layers[0].Digest != "" || result.ManifestDigest != "" {
		t.Errorf("layers %+v, manifest %q", layers, result.ManifestDigest)
	}
}

// TestUnknownLayers: whatever a registry responds, the scan of a root file system succeeds, and says why layers are not known.
func TestUnknownLayers(t *testing.T) {
	registry, other := newRegistry(t), newBystander(t)
	resolveAll(t, "169.254.169.254")
	reference := registry.push(t, debian(t))
	status := func(code int) guard {
		return only("", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	for name, test := range map[string]struct {
		guard  guard
		phrase string
	}{
		"denied": {only("", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"errors":[{"code":"DENIED","message":"` + strings.Repeat("a\\u001b\\n", 4000) + `"}]}`))
		}), "the registry requires credentials, which scans of image volumes do not have; with spec.job.source: Registry"},
		"a challenge":                   {challenge("https://169.254.169.254/token"), "the registry could not be asked: "},
		"absent":                        {status(http.StatusNotFound), "the registry does not have the image: "},
		"rate limited":                  {status(http.StatusTooManyRequests), "the registry limits how often it is asked; scan the image again later: "},
		"broken":                        {status(http.StatusInternalServerError), "the registry could not be asked: "},
		"not HTTP":                      {only("", notHTTP), "the registry could not be asked: "},
		"another manifest":              {replaceIn("/manifests/", []byte(`{"schemaVersion":2,"config":{"digest":"sha256:1"}}`)), "the manifest has the digest sha256:"},
		"another configuration":         {replaceIn("/blobs/", []byte(`{"rootfs":{"diff_ids":["sha256:1"]}}`)), "the configuration has the digest sha256:"},
		"an endless manifest":           {only("/manifests/", endless(http.StatusOK, "{", " ")), "limit of 4194304 bytes"},
		"an endless configuration":      {only("/blobs/", endless(http.StatusOK, "{", " ")), "limit of 8388608 bytes"},
		"an endless refusal":            {only("", endless(http.StatusForbidden, "{", " ")), "the registry requires credentials"},
		"a link-local redirect":         {only("/manifests/", redirectTo("https://169.254.169.254/latest/meta-data/")), "refused to connect to 169.254.169.254"},
		"a link-local name":             {only("/blobs/", redirectTo("https://metadata.hostile.test/")), "refused to connect"},
		"a redirect in circles":         {only("/manifests/", redirectTo("?again")), "more than 5 times"},
		"a redirect to another host":    {only("/manifests/", redirectTo(other.url)), "403"},
		"a redirect without encryption": {only("/blobs/", redirectTo("http://metadata.hostile.test/")), "plain HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			registry.guard = func(w http.ResponseWriter, r *http.Request) bool {
				requests.Add(1)
				return test.guard(w, r)
			}
			wantUnknown(t, Request{Image: reference}, test.phrase)
			if n := requests.Load(); n == 0 || n > 2*maxAttempts*(maxRedirects+2) {
				t.Errorf("%d requests", n)
			}
		})
	}
	registry.guard = nil
	wantUnknown(t, Request{Image: unreachable + "/team/app@" + hashOf(nil).String()}, "the registry could not be asked: ")
	wantUnknown(t, Request{Image: "169.254.169.254/team/app@" + hashOf(nil).String()}, "refused to connect")
}

// TestUnknownLayersOfManifests: what does not describe one image of the platform says nothing about it.
func TestUnknownLayersOfManifests(t *testing.T) {
	registry := newRegistry(t)
	image := debian(t)
	other := registry.push(t, imageFor(t, "linux", "arm64"))
	registry.push(t, image)
	raw, err := image.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*v1.Manifest)
		phrase string
	}{
		"too many layers":  {func(m *v1.Manifest) { m.Layers = slices.Repeat(m.Layers, maxLayers+1) }, "513 layers, more than the limit of 512"},
		"other layers":     {func(m *v1.Manifest) { m.Layers = append(m.Layers, m.Layers[0]) }, "lists 1 layers, its manifest 2"},
		"sum overflows":    {func(m *v1.Manifest) { m.Layers[0].Size = 1<<63 - 1 }, "more than the limit"},
		"large config":     {func(m *v1.Manifest) { m.Config.Size = 1 << 30 }, "limit of 8388608"},
		"layer as config":  {func(m *v1.Manifest) { m.Config.Digest = m.Layers[0].Digest }, "configuration cannot be read"},
		"config elsewhere": {func(m *v1.Manifest) { m.Config.URLs = []string{"http://169.254.169.254/"} }, "outside the registry"},
		"artifact":         {func(m *v1.Manifest) { m.Config.MediaType = "application/vnd.cncf.helm.config.v1+json" }, "artifact"},
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
			wantUnknown(t, Request{Image: registry.put(t, types.OCIManifestSchema1, changed)}, test.phrase)
		})
	}
	wantUnknown(t, Request{Image: other}, "built for linux/arm64, not for linux/amd64")
}

// TestLayersThatAreNotAskedFor: no request is made for an image that no registry has under this name, or that the configuration excludes.
func TestLayersThatAreNotAskedFor(t *testing.T) {
	registry := newRegistry(t)
	reference := registry.push(t, debian(t))
	var requests atomic.Int32
	registry.guard = func(http.ResponseWriter, *http.Request) bool {
		requests.Add(1)
		return true
	}
	digest := hashOf(nil).String()
	wantUnknown(t, Request{Image: registry.host + "/team/app:latest"}, "has no digest")
	wantUnknown(t, Request{Image: digest}, "exists only on its node")
	wantUnknown(t, Request{Image: "docker.io/library/import-2024-01-01@" + digest}, "no registry has it under this name")
	wantNoLayers(t, Request{Image: reference}, "not configured to ask registries")
	if n := requests.Load(); n > 0 {
		t.Errorf("%d requests", n)
	}
}

// TestLayersTakeNoLonger: a registry that does not respond ends with its own bound, and a scan that failed does not wait for it.
func TestLayersTakeNoLonger(t *testing.T) {
	registry := newRegistry(t)
	reference := registry.push(t, debian(t))
	registry.guard = only("/manifests/", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(failf(model.ReasonDeadlineExceeded, "it took longer than the test"))
	if got := layersOf(ctx, Request{Image: reference, sleep: noSleep}); got.image != nil || got.unknown != "the registry could not be asked: it took longer than the test" {
		t.Errorf("got %+v", got)
	}
	asked, done := make(chan struct{}), make(chan struct{})
	registry.guard = only("/manifests/", func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(done)
	})
	asking, stop := context.WithCancel(t.Context())
	wait := askLayers(asking, Request{Image: reference, Registries: registries.Config{AskLayers: true}, sleep: noSleep})
	<-asked
	stop()
	if got := wait(); got.image != nil || got.unknown == "" {
		t.Errorf("got %+v", got)
	}
	<-done
}
