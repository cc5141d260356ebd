package imageresolver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
)

const (
	// maxResponse bounds what a registry may answer; manifests have at most 4 MiB.
	maxResponse = 4 << 20
	// pullTimeout bounds the requests for one image.
	pullTimeout = 30 * time.Second
	// maxCached bounds the images that nodes remember.
	maxCached = 10_000
)

// pullError is why a container waits, as a kubelet reports it.
type pullError struct{ reason, message string }

func (e *pullError) Error() string { return e.reason + ": " + e.message }

// Reasons of waiting containers.
const (
	reasonErrImagePull     = "ErrImagePull"
	reasonImagePullBackOff = "ImagePullBackOff"
	reasonInvalidName      = "InvalidImageName"
	reasonNeverPull        = "ErrImageNeverPull"
)

// images resolves references as the nodes' kubelets do and remembers what each node has.
type images struct {
	transport http.RoundTripper

	mu    sync.Mutex
	local map[nodeImage]string
}

type nodeImage struct{ node, image string }

func newImages() *images {
	return &images{transport: limited{http.DefaultTransport}, local: map[nodeImage]string{}}
}

// resolve returns the image ID that a container runtime reports: the repository with the digest that the tag has now, or had when the node
// "pulled" the image, by the container's pull policy.
func (i *images) resolve(ctx context.Context, node string, platform v1.Platform, image string, policy corev1.PullPolicy) (string, error) {
	key := nodeImage{node, image}
	i.mu.Lock()
	id, present := i.local[key]
	i.mu.Unlock()
	switch {
	case policy == corev1.PullNever && !present:
		return "", &pullError{reasonNeverPull, fmt.Sprintf("Container image %q is not present with pull policy of Never", image)}
	case present && policy != corev1.PullAlways:
		return id, nil
	}
	reference, err := name.ParseReference(image)
	if err != nil {
		return "", &pullError{reasonInvalidName, fmt.Sprintf("Failed to apply default image tag %q: %v", image, err)}
	}
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	digest, err := i.digest(ctx, reference, platform)
	if err != nil {
		return "", &pullError{reasonErrImagePull, fmt.Sprintf("failed to pull and unpack image %q: %v", reference.Name(), err)}
	}
	id = repository(reference) + "@" + digest.String()
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.local) >= maxCached {
		clear(i.local)
	}
	i.local[key] = id
	return id, nil
}

// digest asks the registry what the reference stands for, an index or an image, as a container runtime does.
func (i *images) digest(ctx context.Context, reference name.Reference, platform v1.Platform) (v1.Hash, error) {
	found, err := remote.Get(reference, remote.WithContext(ctx), remote.WithTransport(i.transport), remote.WithRetryBackoff(remote.Backoff{Steps: 1}))
	if err != nil {
		return v1.Hash{}, err
	}
	if !found.MediaType.IsIndex() {
		return found.Digest, nil
	}
	index, err := found.ImageIndex()
	if err != nil {
		return v1.Hash{}, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return v1.Hash{}, err
	}
	for _, image := range manifest.Manifests {
		if image.Platform == nil || image.Platform.Satisfies(platform) {
			return found.Digest, nil
		}
	}
	return v1.Hash{}, fmt.Errorf("no match for platform %s in manifest: not found", platform)
}

// repository is the name of the repository as container runtimes write it.
func repository(reference name.Reference) string {
	repository := reference.Context().Name()
	if rest, ok := strings.CutPrefix(repository, name.DefaultRegistry+"/"); ok {
		return "docker.io/" + rest
	}
	return repository
}

// limited is a transport whose responses have a maximum size.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	res.Body = &limitedBody{ReadCloser: res.Body, left: maxResponse}
	return res, nil
}

type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

var errTooLarge = errors.New("the registry's response is larger than 4 MiB")
