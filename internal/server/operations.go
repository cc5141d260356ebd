package server

import (
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

// operations implements the generated interface, one file per resource.
type operations struct{ s *Server }

var _ api.StrictServerInterface = operations{}

// imageKey reads the image and the platform that a request names. Without a platform the store chooses one.
func imageKey(imageID string, platform *string) (model.ImageKey, error) {
	key := model.ImageKey{ImageID: imageID}
	if err := key.Validate(); err != nil {
		return model.ImageKey{}, problem.BadRequest("imageId: %v", err)
	}
	if platform != nil && *platform != "" {
		parsed, err := model.ParsePlatform(*platform)
		if err != nil {
			return model.ImageKey{}, problem.BadRequest("platform: %v", err)
		}
		key.Platform = parsed
	}
	return key, nil
}

// optional returns nil for the zero value, which the API leaves out.
func optional[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// optionalTime returns nil for the zero time.
func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// optionalList returns nil for an empty list.
func optionalList[T any](list []T) *[]T {
	if len(list) == 0 {
		return nil
	}
	return &list
}

// value returns the zero value for nil.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
