package kube

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestConditionLog(t *testing.T) {
	valid := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: "Valid", Status: status, Reason: reason, Message: message}
	}
	for name, test := range map[string]struct {
		from, to []metav1.Condition
		want     []string
	}{
		"nothing changed": {from: []metav1.Condition{valid("True", "Good", "m")}, to: []metav1.Condition{valid("True", "Good", "m")}},
		"a message":       {from: []metav1.Condition{valid("True", "Good", "m")}, to: []metav1.Condition{valid("True", "Good", "other")}},
		"a reason": {
			from: []metav1.Condition{valid("False", "Bad", "m")}, to: []metav1.Condition{valid("False", "TooMany", "m")},
			want: []string{`"condition"="Valid" "from"="False/Bad" "to"="False/TooMany"`},
		},
		"two, and one that others report": {
			from: []metav1.Condition{{Type: "Delivering", Status: "True", Reason: "Good"}},
			to:   []metav1.Condition{{Type: "Delivering", Status: "False", Reason: "Bad"}, {Type: "Applied", Status: "True", Reason: "Applied"}, valid("True", "Good", "")},
			want: []string{`"condition"="Valid" "from"="" "to"="True/Good"`, `"condition"="Applied" "from"="" "to"="True/Applied"`},
		},
	} {
		logs, object := &lines{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
		NewConditionLog(clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))).Changed(logs.context(t.Context()), object, test.from, test.to)
		var want []string
		for _, line := range test.want {
			want = append(want, `"level"=0 "msg"="Condition changed" "object"="ns/a" `+line)
		}
		if diff := cmp.Diff(want, logs.all); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestConditionLogIsBounded: an object whose conditions change all the time does not fill the log, also if it is created again each time. Others are logged.
func TestConditionLogIsBounded(t *testing.T) {
	now, logs := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), &lines{}
	l := NewConditionLog(now)
	change := func(name string, n int) {
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(fmt.Sprint(n))}}
		status := func(n int) []metav1.Condition {
			return []metav1.Condition{{Type: "Valid", Status: metav1.ConditionFalse, Reason: fmt.Sprint("R", n%2)}}
		}
		l.Changed(logs.context(t.Context()), object, status(n), status(n+1))
	}
	for n := range 100 {
		change("a", n)
		now.SetTime(now.Now().Add(100 * time.Millisecond))
	}
	if len(logs.all) != maxLines {
		t.Errorf("%d lines in ten seconds, want %d", len(logs.all), maxLines)
	}
	change("b", 0)
	if len(logs.all) != maxLines+1 {
		t.Error("the change of another object is not logged")
	}
	now.SetTime(now.Now().Add(lineEvery))
	change("a", 0)
	change("a", 1)
	want := `"level"=0 "msg"="Condition changed" "object"="ns/a" "linesLeftOut"=94 "condition"="Valid" "from"="False/R0" "to"="False/R1"`
	if diff := cmp.Diff(want, logs.all[len(logs.all)-1]); diff != "" || len(logs.all) != maxLines+2 {
		t.Errorf("%d lines, want one more after %s (-want +got):\n%s", len(logs.all), lineEvery, diff)
	}
	now.SetTime(now.Now().Add(10 * lineEvery))
	change("a", 0)
	change("a", 1)
	if last := logs.all[len(logs.all)-1]; last != `"level"=0 "msg"="Condition changed" "object"="ns/a" "condition"="Valid" "from"="False/R1" "to"="False/R0"` {
		t.Errorf("%s, want no line to be left out", last)
	}
}
