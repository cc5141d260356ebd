package servingcert

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// secretInterval is the time between two looks at the Secret, which other replicas write too.
	secretInterval = time.Minute
	// maxConflicts bounds the updates that other replicas are ahead of, before waiting.
	maxConflicts = 5
)

// Secret is where replicas share their CA and certificate.
type Secret struct {
	// Name is that of a Secret that exists, at first without data.
	Name types.NamespacedName
	// Reader reads from the API server, not from a cache: a cache would need the permission to read all Secrets. Writer updates.
	Reader client.Reader
	Writer client.Writer
	// Names are the DNS names and IP addresses of the API, at least one.
	Names []string
}

// FromSecret returns a source that creates a CA and a certificate, keeps them in a Secret, and renews both before they expire. Every
// replica may do that: an update of the Secret fails if another replica was faster, and is then not needed any more.
func FromSecret(secret Secret, clk clock.Clock, log logr.Logger) *Source {
	return &Source{
		load:     func(ctx context.Context) (*material, error) { return secret.load(ctx, clk.Now(), log) },
		interval: secretInterval, clock: clk, log: log,
	}
}

func (s Secret) load(ctx context.Context, now time.Time, log logr.Logger) (*material, error) {
	for attempt := 0; ; attempt++ {
		var object corev1.Secret
		if err := s.Reader.Get(ctx, s.Name, &object); err != nil {
			if apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("the Secret %s does not exist: create it without data, as the chart does", s.Name)
			}
			return nil, fmt.Errorf("get the Secret with the certificate of the API: %w", err)
		}
		stored, err := decode(object.Data)
		if err != nil {
			log.Info("The Secret with the certificate of the API is unusable and will be replaced", "secret", s.Name.String(), "error", err.Error())
			stored = state{}
		}
		next, changed, err := stored.renewed(now, s.Names)
		if err != nil || !changed {
			return next.usable(), err
		}
		data, err := next.encode()
		if err != nil {
			return stored.usable(), err
		}
		if object.Data == nil {
			object.Data = map[string][]byte{}
		}
		maps.Copy(object.Data, data)
		err = s.Writer.Update(ctx, &object)
		switch {
		case err == nil:
			log.Info("Renewed the certificate of the API", "secret", s.Name.String(), "from", stored.end(), "to", next.end(), "authorities", len(next.authorities))
			return next.usable(), nil
		case !apierrors.IsConflict(err) || attempt == maxConflicts:
			return stored.usable(), fmt.Errorf("update the Secret %s with the certificate of the API: %w", s.Name, err)
		}
	}
}

// end is when the certificate expires, "" without one.
func (s state) end() string {
	if s.certificate == nil {
		return ""
	}
	return s.certificate.Leaf.NotAfter.Format(time.RFC3339)
}

// usable returns what the API can be served with, nil if there is nothing.
func (s state) usable() *material {
	if s.certificate == nil {
		return nil
	}
	return s.material()
}
