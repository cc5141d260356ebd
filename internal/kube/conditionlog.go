package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
)

// maxLines is the maximum number of lines about an object, which gets another one each lineEvery.
const (
	maxLines  = 6
	lineEvery = time.Minute
)

// ConditionLog logs how the conditions of objects change. An object whose conditions change all the time does not fill the log. It is safe for concurrent
// use. NewConditionLog makes one.
type ConditionLog struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// objects has the allowance of each object that changed not long ago.
	objects *lru.Cache
}

// allowance is how many lines an object may have, and how many were left out since the last one.
type allowance struct {
	limiter *rate.Limiter
	omitted int
}

// NewConditionLog returns a ConditionLog.
func NewConditionLog(now clock.PassiveClock) *ConditionLog {
	return &ConditionLog{clock: now, objects: lru.New(10_000)}
}

// Changed logs at level info how the conditions Valid and Applied of an object have changed, if their status or reason has. Messages are left out: they can have
// texts of others, and change with numbers. After six lines, an object gets one per minute, with the number of those that were left out before it.
func (l *ConditionLog) Changed(ctx context.Context, object client.Object, from, to []metav1.Condition) {
	for _, kind := range []string{scannerv1alpha1.ConditionValid, scannerv1alpha1.ConditionApplied} {
		before, after := conditionText(from, kind), conditionText(to, kind)
		if before == after {
			continue
		}
		if values, allowed := l.allows(object); allowed {
			logr.FromContextOrDiscard(ctx).Info("Condition changed", append(values, "condition", kind, "from", before, "to", after)...)
		}
	}
}

// allows returns the values of a line about an object, false if the object may have none now.
func (l *ConditionLog) allows(object client.Object) ([]any, bool) {
	name := strings.TrimPrefix(client.ObjectKeyFromObject(object).String(), "/")
	l.mu.Lock()
	defer l.mu.Unlock()
	// Not by UID: users may delete an object and create it again.
	key := fmt.Sprintf("%T %s", object, name)
	one, _ := l.objects.Get(key)
	allowed, known := one.(*allowance)
	if !known {
		allowed = &allowance{limiter: rate.NewLimiter(rate.Every(lineEvery), maxLines)}
		l.objects.Add(key, allowed)
	}
	if !allowed.limiter.AllowN(l.clock.Now(), 1) {
		allowed.omitted++
		return nil, false
	}
	values := []any{"object", name}
	if allowed.omitted > 0 {
		values = append(values, "linesLeftOut", allowed.omitted)
		allowed.omitted = 0
	}
	return values, true
}

// conditionText is the status and the reason of a condition, "" if there is none of this type.
func conditionText(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason
}
