package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestStatusWriter(t *testing.T) {
	pods, failure := schema.GroupResource{Resource: "pods"}, errors.New("failure")
	for name, test := range map[string]struct {
		fails     map[string]error
		permitted int
		names     []string
		want      []string
		wantAfter time.Duration
	}{
		"nothing":                    {},
		"in order":                   {permitted: 2, names: []string{"b", "a"}, want: []string{"b", "a"}},
		"numbers are last":           {permitted: 3, names: []string{"+b", "a", "+c"}, want: []string{"a", "+b", "+c"}},
		"equal ones take no permits": {permitted: 1, names: []string{"=x", "a", "=y"}, want: []string{"a"}},
		"the bound":                  {permitted: 1, names: []string{"a", "=x", "b", "c"}, want: []string{"a"}, wantAfter: leftAfter},
		"a conflict": {
			permitted: 3, names: []string{"a", "b"}, fails: map[string]error{"a": apierrors.NewConflict(pods, "a", failure)},
			want: []string{"a", "b"}, wantAfter: leftAfter,
		},
		"deleted in the meantime": {
			permitted: 3, names: []string{"a", "b"}, fails: map[string]error{"a": apierrors.NewNotFound(pods, "a")}, want: []string{"a", "b"},
		},
		"rejected by admission": {
			permitted: 3, names: []string{"a", "b", "c"}, fails: map[string]error{"b": apierrors.NewForbidden(pods, "b", failure)},
			want: []string{"a", "b", "c"}, wantAfter: minLateWait,
		},
		"too large": {
			permitted: 3, names: []string{"a", "b", "c"}, fails: map[string]error{"b": apierrors.NewRequestEntityTooLargeError("x")},
			want: []string{"a", "b", "c"}, wantAfter: minLateWait,
		},
		"a webhook that is away": {
			permitted: 3, names: []string{"a", "b", "c"}, fails: map[string]error{"b": apierrors.NewInternalError(failure)},
			want: []string{"a", "b", "c"}, wantAfter: minLateWait,
		},
		"an API server that is away": {permitted: 3, names: []string{"a", "b", "c"}, fails: map[string]error{"b": failure}, want: []string{"a", "b"}, wantAfter: leftAfter},
		"an API server without room": {
			permitted: 3, names: []string{"a", "b", "c"}, fails: map[string]error{"b": apierrors.NewTooManyRequestsError("x")}, want: []string{"a", "b"}, wantAfter: leftAfter,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, now := &namingClient{fails: test.fails}, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
			w, logs := NewStatusWriter(c, test.permitted, now), &lines{}
			if after := w.Write(logs.context(t.Context()), changesOf(t, test.names...)); after != test.wantAfter {
				t.Errorf("the next round is after %s, want %s", after, test.wantAfter)
			}
			if diff := cmp.Diff(test.want, c.names); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			var logged []string
			for _, name := range test.want {
				if test.fails[name] == nil {
					logged = append(logged, `"level"=0 "msg"="Condition changed" "object"="`+name+`" "condition"="Valid" "from"="" "to"="True/Good"`)
				}
			}
			logs.all = slices.DeleteFunc(logs.all, func(line string) bool { return strings.Contains(line, "Failed to write a status") })
			if diff := cmp.Diff(logged, logs.all); diff != "" {
				t.Errorf("logged (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStatusesThatCannotBeWritten do not keep others from being written, and are tried less and less often.
func TestStatusesThatCannotBeWritten(t *testing.T) {
	rejected := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "b", errors.New("denied"))
	for name, failure := range map[string]error{"rejected": rejected, "no answer": errors.New("the API server did not answer")} {
		t.Run(name, func(t *testing.T) {
			now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
			c := &namingClient{fails: map[string]error{"b": failure}}
			w, logs := NewStatusWriter(c, 20, now), &lines{}
			began, changes := now.Now(), changesOf(t, "a", "b", "c")
			var tried []time.Duration
			for now.Since(began) < 5*time.Minute {
				c.names = nil
				after := w.Write(logs.context(t.Context()), changes)
				for i, name := range c.names {
					if name == "b" {
						tried = append(tried, now.Since(began))
						if len(tried) > 1 && i != len(c.names)-1 {
							t.Errorf("written in the order %v, want what fails at the end", c.names)
						}
					}
				}
				if len(tried) > 1 && !slices.Contains(c.names, "c") {
					t.Errorf("after %s, wrote %v, want all others", now.Since(began), c.names)
				}
				if after <= 0 || after > maxLateWait {
					t.Fatalf("the next round is after %s", after)
				}
				now.SetTime(now.Now().Add(min(after, time.Second)))
			}
			if len(tried) < 10 || len(tried) > 15 || tried[1] != minLateWait || tried[2] != 3*minLateWait || tried[len(tried)-1]-tried[len(tried)-2] > maxLateWait+time.Second {
				t.Errorf("tried after %v, want more and more time in between, and at most %s", tried, maxLateWait)
			}
			failures := slices.DeleteFunc(logs.all, func(line string) bool { return !strings.Contains(line, "Failed to write a status") })
			if len(failures) < 1 || len(failures) > maxLines+5 {
				t.Errorf("%d lines about failures in five minutes", len(failures))
			}
			// It is written at last, and is like others from then on.
			c.fails, c.names = nil, nil
			now.SetTime(now.Now().Add(maxLateWait))
			w.Write(t.Context(), changes)
			if diff := cmp.Diff([]string{"a", "b", "c"}, slices.Sorted(slices.Values(c.names))); diff != "" || len(w.late) != 0 {
				t.Errorf("%d are late (-want +got):\n%s", len(w.late), diff)
			}
		})
	}
}

// TestSlowStatuses: those whose writes hang take a small part of the time, others are written first.
func TestSlowStatuses(t *testing.T) {
	for name, failure := range map[string]error{"no answer": errors.New("the API server did not answer within 20s"), "written at last": nil} {
		t.Run(name, func(t *testing.T) {
			const hanging, hangs = 10, 20 * time.Second
			now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
			c := &namingClient{fails: map[string]error{}}
			var names []string
			slow := map[string]bool{}
			for i := range hanging {
				names = append(names, fmt.Sprint("slow-", i), fmt.Sprint("quick-", i))
				slow[names[2*i]], c.fails[names[2*i]] = true, failure
			}
			spent, slowWrites := time.Duration(0), 0
			c.took = func(name string) {
				if slow[name] {
					now.SetTime(now.Now().Add(hangs))
					spent += hangs
					slowWrites++
				}
			}
			w := NewStatusWriter(c, 20, now)
			// Each has to hang once until it is known.
			for range hanging {
				after := w.Write(t.Context(), changesOf(t, names...))
				now.SetTime(now.Now().Add(after))
			}
			spent = 0
			tried := map[string]bool{}
			for began := now.Now(); now.Since(began) < time.Hour; {
				before := slowWrites
				c.names = nil
				after := w.Write(t.Context(), changesOf(t, names...))
				if slowWrites > before+1 {
					t.Fatalf("%d slow writes in one round", slowWrites-before)
				}
				for i, name := range c.names {
					if slow[name] && i < hanging {
						t.Fatalf("wrote %v, want the others first", c.names)
					}
					tried[name] = true
				}
				now.SetTime(now.Now().Add(max(after, time.Second)))
			}
			if spent > 15*time.Minute || len(tried) != 2*hanging {
				t.Errorf("slow writes took %s of an hour; %d were tried, want all %d", spent, len(tried), 2*hanging)
			}
		})
	}
}

// TestManyStatusesThatCannotBeWritten cause few rounds, each of which is a reconcile.
func TestManyStatusesThatCannotBeWritten(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	c, names := &namingClient{fails: map[string]error{}}, []string{}
	for i := range 100 {
		names = append(names, fmt.Sprint(i))
		c.fails[names[i]] = apierrors.NewInternalError(errors.New("failed calling webhook"))
	}
	w, rounds, began := NewStatusWriter(c, 20, now), 0, now.Now()
	for changes := changesOf(t, names...); now.Since(began) < 10*time.Minute; rounds++ {
		after := w.Write(t.Context(), changes)
		if after <= 0 || after > maxLateWait {
			t.Fatalf("the next round is after %s", after)
		}
		now.SetTime(now.Now().Add(after))
	}
	if most := int(10*time.Minute/minLateWait) + 5; rounds > most {
		t.Errorf("%d rounds in ten minutes, want at most %d", rounds, most)
	}
	if tries := len(c.names); tries < 1000 {
		t.Errorf("%d tries in ten minutes, want ten of each", tries)
	}
}

// TestStatusesAreWrittenInTurn: statuses that change all the time do not keep those behind them from being written.
func TestStatusesAreWrittenInTurn(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	c := &namingClient{}
	w := NewStatusWriter(c, 2, now)
	for range 5 {
		w.Write(t.Context(), changesOf(t, "a", "b", "c", "d", "e"))
		now.SetTime(now.Now().Add(time.Second))
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e", "a", "b", "c", "d", "e"}, c.names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStatusesThatChangeAllTheTime do not keep one that failed once from being written.
func TestStatusesThatChangeAllTheTime(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	c := &namingClient{fails: map[string]error{"late": apierrors.NewInternalError(errors.New("etcd"))}}
	w := NewStatusWriter(c, 2, now)
	w.Write(t.Context(), changesOf(t, "late"))
	clear(c.fails)
	for began := now.Now(); len(w.late) > 0; now.SetTime(now.Now().Add(time.Second)) {
		if now.Since(began) > minLateWait+maxLateWait+time.Second {
			t.Fatalf("not written in %s", now.Since(began))
		}
		w.Write(t.Context(), changesOf(t, "a", "b", "c", "late"))
	}
}

// TestLateStatusesAreForgotten when their objects are.
func TestLateStatusesAreForgotten(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	w := NewStatusWriter(&namingClient{fails: map[string]error{"a": errors.New("failure")}}, 2, now)
	w.Write(t.Context(), changesOf(t, "a"))
	now.SetTime(now.Now().Add(lateMemory + time.Minute))
	if w.Write(t.Context(), nil); len(w.late) != 0 {
		t.Errorf("%d objects are late", len(w.late))
	}
}

// TestStatusWriterKnowsThatTheCacheIsBehind writes a status, and then finds that the one before is right while the cache still has that one.
func TestStatusWriterKnowsThatTheCacheIsBehind(t *testing.T) {
	c, now := &namingClient{}, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	w := NewStatusWriter(c, 1, now)
	write := func(change StatusChange) string {
		t.Helper()
		return fmt.Sprint(w.Write(t.Context(), []StatusChange{change}), " ", len(c.names))
	}
	change := changesOf(t, "a")[0]
	if IsBehind(change.Before) {
		t.Error("the cache is behind before anything is written")
	}
	if got := write(change); got != "0s 1" {
		t.Errorf("a change: %s", got)
	}
	if !IsBehind(change.Before) || IsBehind(change.After) {
		t.Error("the cache that has the object as it was before is behind, and the one that has it as it was written is not")
	}
	if got := write(StatusChange{Before: change.Before, After: change.Before.DeepCopyObject().(client.Object)}); got != "1s 1" {
		t.Errorf("the cache is behind: %s", got)
	}
	if got := write(StatusChange{Before: change.After, After: change.After.DeepCopyObject().(client.Object)}); got != "0s 1" {
		t.Errorf("the cache shows what was written: %s", got)
	}
	var without corev1.Pod
	if IsBehind(&without) {
		t.Error("an object without UID is behind")
	}
}

// TestOneSlowStatus: a write that is not answered once is an accident, after which the status is written soon.
func TestOneSlowStatus(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	c := &namingClient{fails: map[string]error{"a": errors.New("the API server did not answer within 20s")}}
	c.took = func(string) { now.SetTime(now.Now().Add(writeTimeout)) }
	w := NewStatusWriter(c, 20, now)
	after := w.Write(t.Context(), changesOf(t, "a"))
	failed := now.Now()
	clear(c.fails)
	c.took, c.names = nil, nil
	for len(c.names) == 0 && now.Since(failed) < time.Hour {
		now.SetTime(now.Now().Add(after))
		after = w.Write(t.Context(), changesOf(t, "a"))
	}
	if waited := now.Since(failed); waited > minLateWait+leftAfter {
		t.Errorf("written after %s, want at most %s", waited, minLateWait+leftAfter)
	}
}
