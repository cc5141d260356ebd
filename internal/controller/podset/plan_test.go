package podset

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// podIn makes a pod of a slot, called after it, that runs and is ready on a node of its own, since an hour.
func podIn(slot int, mutate ...func(*corev1.Pod)) *corev1.Pod {
	name := strconv.Itoa(slot)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ours.Namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
			OwnerReferences: []metav1.OwnerReference{*ownerReference(podSet(1, ""))},
			Labels: map[string]string{
				appv1alpha1.LabelApp: ours.Name, appv1alpha1.LabelVersion: appv1alpha1.Version, appsv1.PodIndexLabel: name,
				appv1alpha1.LabelTemplateHash: "new", appv1alpha1.LabelReplacement: "0", appv1alpha1.LabelFailures: "0",
			},
		},
		Spec: corev1.PodSpec{NodeName: "node-" + name},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, m := range mutate {
		m(pod)
	}
	return pod
}

func called(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Name, pod.UID = name, types.UID(name) }
}

func unscheduled(pod *corev1.Pod) {
	pod.Spec.NodeName = ""
	pending(pod)
}

func pending(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodPending
	notReady(pod)
}

func unknown(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodUnknown
	notReady(pod)
}

func notReady(pod *corev1.Pod) { pod.Status.Conditions = nil }

func terminating(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: now} }

func outdated(pod *corev1.Pod) { pod.Labels[appv1alpha1.LabelTemplateHash] = "old" }

func costs(cost string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{corev1.PodDeletionCost: cost} }
}

func aged(age time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(now.Add(-age)) }
}

func onNode(name string) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Spec.NodeName = name } }

func replacement(n int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[appv1alpha1.LabelReplacement] = strconv.Itoa(n) }
}

func adopted(pod *corev1.Pod) {
	pod.Labels = map[string]string{appv1alpha1.LabelApp: ours.Name, appv1alpha1.LabelVersion: appv1alpha1.Version}
}

// ended makes a pod that lived for so long after so many that had ended too, and ended so long ago.
func ended(phase corev1.PodPhase, lived, ago time.Duration, failures int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = phase
		end := metav1.NewTime(now.Add(-ago))
		pod.CreationTimestamp = metav1.NewTime(end.Add(-lived))
		pod.Labels[appv1alpha1.LabelFailures] = strconv.Itoa(failures)
		pod.Status.Conditions = nil
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: end}}}}
	}
}

// created is the creation of a pod that others deleted some time ago.
func created(slot int, hash string, failures int, ago time.Duration) creations {
	return creations{slot: {hash: hash, failures: failures, deletedAt: now.Add(-ago)}}
}

func names(pods []*corev1.Pod) string {
	var all []string
	for _, pod := range pods {
		all = append(all, pod.Name)
	}
	return strings.Join(all, " ")
}

type podList = []*corev1.Pod

func TestRank(t *testing.T) {
	tests := map[string]struct {
		pods podList
		want string
	}{
		"not scheduled before pending":  {podList{podIn(0, pending), podIn(1, unscheduled, costs("9"))}, "1 0"},
		"pending before running":        {podList{podIn(0, notReady), podIn(1, pending)}, "1 0"},
		"unknown is between them":       {podList{podIn(0, notReady), podIn(1, unknown), podIn(2, pending)}, "2 1 0"},
		"not ready before ready":        {podList{podIn(0, costs("-5")), podIn(1, notReady)}, "1 0"},
		"cheap before dear":             {podList{podIn(0), podIn(1, costs("10")), podIn(2, costs("-1"))}, "2 0 1"},
		"a cost that is no number is 0": {podList{podIn(0, costs("1")), podIn(1, costs("dear"))}, "1 0"},
		"earlier template first":        {podList{podIn(0, outdated), podIn(1, aged(time.Minute))}, "0 1"},
		"crowded nodes first":           {podList{podIn(0, onNode("n")), podIn(1, aged(time.Minute)), podIn(2, onNode("n"))}, "2 0 1"},
		"youngest first":                {podList{podIn(0, aged(time.Minute)), podIn(1), podIn(2, aged(time.Second))}, "2 0 1"},
		"last slots first":              {podList{podIn(0), podIn(10), podIn(2)}, "10 2 0"},
		"those that do not count":       {podList{podIn(0), podIn(1, terminating), podIn(2, ended(corev1.PodFailed, 0, 0, 0))}, "0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &state{hash: "new", pods: tt.pods, now: now}
			if got := names(ranked(s)); got != tt.want {
				t.Errorf("ranked: %s, want %s", got, tt.want)
			}
		})
	}
}

func TestSurplusAndReplaceable(t *testing.T) {
	tests := map[string]struct {
		replicas             int
		invalidTemplate      bool
		pods                 podList
		surplus, replaceable string
	}{
		"as wanted":                           {replicas: 2, pods: podList{podIn(0), podIn(1)}},
		"too few":                             {replicas: 3, pods: podList{podIn(0), podIn(1)}},
		"too many":                            {replicas: 1, pods: podList{podIn(0), podIn(1), podIn(2)}, surplus: "2 1"},
		"those that end do not count":         {replicas: 1, pods: podList{podIn(0), podIn(1, terminating), podIn(2, ended(corev1.PodFailed, 0, 0, 0))}},
		"one of an earlier template":          {replicas: 3, pods: podList{podIn(0), podIn(1, outdated), podIn(2, outdated)}, replaceable: "2"},
		"none as long as another starts":      {replicas: 3, pods: podList{podIn(0, pending), podIn(1, outdated), podIn(2, outdated)}},
		"none as long as one is missing":      {replicas: 3, pods: podList{podIn(1, outdated), podIn(2, outdated)}},
		"all that do not serve":               {replicas: 4, pods: podList{podIn(0, outdated), podIn(1, outdated, pending), podIn(2, outdated, notReady), podIn(3)}, replaceable: "1 2"},
		"an earlier one that waits is no bar": {replicas: 2, pods: podList{podIn(0, outdated), podIn(1, pending)}},
		"adopted pods stay":                   {replicas: 2, pods: podList{podIn(0, adopted), podIn(1)}},
		"a template that cannot be read":      {replicas: 1, invalidTemplate: true, pods: podList{podIn(0, outdated), podIn(1)}, surplus: "1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &state{replicas: tt.replicas, hash: "new", invalidTemplate: tt.invalidTemplate, pods: tt.pods, now: now}
			if got := names(surplus(s)); got != tt.surplus {
				t.Errorf("surplus: %q, want %q", got, tt.surplus)
			}
			if tt.surplus != "" {
				return
			}
			if got := names(replaceable(s)); got != tt.replaceable {
				t.Errorf("replaceable: %q, want %q", got, tt.replaceable)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	const failed, succeeded = corev1.PodFailed, corev1.PodSucceeded
	// A vacancy is written as slot/replacement/failures, and +backoff when it waits.
	tests := map[string]struct {
		replicas         int
		invalidTemplate  bool
		pods             podList
		creations        creations
		want             string
		finishedToDelete string
	}{
		"all of them":                             {replicas: 3, want: "0/0/0 1/0/0 2/0/0"},
		"none":                                    {replicas: 2, pods: podList{podIn(0), podIn(1)}},
		"the lowest free slots":                   {replicas: 4, pods: podList{podIn(1), podIn(3)}, want: "0/0/0 2/0/0"},
		"while the old one goes":                  {replicas: 2, pods: podList{podIn(0, terminating, replacement(4)), podIn(1)}, want: "0/5/0"},
		"after the last of several":               {replicas: 1, pods: podList{podIn(0, terminating, replacement(2)), podIn(0, terminating, replacement(10)), podIn(0, terminating)}, want: "0/11/0"},
		"adopted pods count and have no slot":     {replicas: 2, pods: podList{podIn(7, adopted)}, want: "0/0/0"},
		"a slot that is nonsense":                 {replicas: 2, pods: podList{podIn(0, func(p *corev1.Pod) { p.Labels[appsv1.PodIndexLabel] = "-1" })}, want: "0/0/0"},
		"the first failure is replaced at once":   {replicas: 1, pods: podList{podIn(0, ended(failed, time.Second, 0, 0))}, want: "0/1/1"},
		"the second waits":                        {replicas: 1, pods: podList{podIn(0, ended(failed, time.Second, 4*time.Second, 1), replacement(1))}, want: "0/2/2+6s"},
		"until its backoff is over":               {replicas: 1, pods: podList{podIn(0, ended(failed, time.Second, 10*time.Second, 1))}, want: "0/1/2"},
		"the next waits longer":                   {replicas: 1, pods: podList{podIn(0, ended(failed, time.Second, 0, 3))}, want: "0/1/4+40s"},
		"at most the maximum backoff":             {replicas: 1, pods: podList{podIn(0, ended(failed, time.Second, 0, 100))}, want: "0/1/101+5m0s"},
		"a pod that has done its work waits too":  {replicas: 1, pods: podList{podIn(0, ended(succeeded, time.Second, 0, 1))}, want: "0/1/2+10s"},
		"a pod that lived long breaks the row":    {replicas: 1, pods: podList{podIn(0, ended(failed, backoffReset, 0, 7))}, want: "0/1/0"},
		"another template breaks the row":         {replicas: 1, pods: podList{podIn(0, ended(failed, time.Second, 0, 7), outdated)}, want: "0/1/0"},
		"who waits does not pass its turn on":     {replicas: 2, pods: podList{podIn(0, ended(failed, 0, 0, 1)), podIn(1)}, want: "0/1/2+10s"},
		"a finished pod that is replaced":         {replicas: 1, pods: podList{podIn(0, ended(failed, 0, 0, 1)), podIn(0, called("new"), replacement(1))}, finishedToDelete: "0"},
		"a finished pod not desired":              {replicas: 1, pods: podList{podIn(0), podIn(1, ended(succeeded, 0, 0, 1))}, finishedToDelete: "1"},
		"of two ends the last one counts":         {replicas: 1, pods: podList{podIn(0, called("first"), ended(failed, 0, 0, 0)), podIn(0, called("last"), replacement(1), ended(failed, 0, 0, 1))}, want: "0/2/2+10s", finishedToDelete: "first"},
		"an adopted pod that has finished":        {replicas: 1, pods: podList{podIn(0), podIn(1, ended(failed, 0, 0, 0), adopted)}, finishedToDelete: "1"},
		"what goes already is not deleted again":  {replicas: 1, pods: podList{podIn(0), podIn(1, ended(failed, 0, 0, 0), terminating)}},
		"a clock that is ahead holds nothing up":  {replicas: 1, pods: podList{podIn(0, ended(failed, 24*time.Hour, -23*time.Hour, 1))}, want: "0/1/2"},
		"the first to be deleted soon":            {replicas: 2, pods: podList{podIn(0)}, creations: created(1, "new", 0, 0), want: "1/0/1"},
		"the second to be deleted soon waits":     {replicas: 2, pods: podList{podIn(0)}, creations: created(1, "new", 1, 4*time.Second), want: "1/0/2+6s"},
		"also while it is there":                  {replicas: 1, pods: podList{podIn(0, terminating, replacement(3))}, creations: created(0, "new", 3, 0), want: "0/4/4+40s"},
		"also when it had ended":                  {replicas: 1, pods: podList{podIn(0, ended(failed, 0, 0, 0), terminating)}, creations: created(0, "new", 1, 0), want: "0/1/2+10s"},
		"until that backoff is over":              {replicas: 1, creations: created(0, "new", 1, 10*time.Second), want: "0/0/2"},
		"deleted, of an earlier template":         {replicas: 1, creations: created(0, "old", 7, 0), want: "0/0/0"},
		"nothing is filled without a template":    {replicas: 1, invalidTemplate: true},
		"an end stays while there is no template": {replicas: 1, invalidTemplate: true, pods: podList{podIn(0, ended(failed, 0, 0, 1))}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &state{replicas: tt.replicas, hash: "new", invalidTemplate: tt.invalidTemplate, pods: tt.pods, creations: tt.creations, now: now}
			var got []string
			wantDue := 0
			for _, v := range missing(s) {
				text := fmt.Sprintf("%d/%d/%d", v.slot, v.replacement, v.failures)
				if wait := v.due.Sub(now); wait > 0 {
					text += "+" + wait.String()
				} else {
					wantDue++
				}
				got = append(got, text)
			}
			if tt.invalidTemplate {
				got, wantDue = nil, 0
			}
			if diff := cmp.Diff(strings.Fields(tt.want), got, cmp.Transformer("text", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			if n := len(due(s)); n != wantDue {
				t.Errorf("%d are due, want %d", n, wantDue)
			}
			if got := names(finishedToDelete(s)); got != tt.finishedToDelete {
				t.Errorf("finished pods to delete: %q, want %q", got, tt.finishedToDelete)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	var got []time.Duration
	for failures := range 8 {
		got = append(got, backoff(failures))
	}
	const s = time.Second
	if diff := cmp.Diff([]time.Duration{0, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An eviction leaves no container that has ended; the condition tells when it was.
func TestEndOfAnEvictedPod(t *testing.T) {
	pod := podIn(0, aged(time.Minute))
	pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Second))
	if got := endOf(pod, now); !got.Equal(now.Add(-time.Second)) {
		t.Errorf("it ended at %s", got)
	}
	pod.Status.Conditions = nil
	if got := endOf(pod, now); !got.Equal(now.Add(-time.Minute)) {
		t.Errorf("without a time, it ended at %s, want when it was made", got)
	}
}

func TestPodNames(t *testing.T) {
	names := map[string]string{}
	for _, ps := range []*appv1alpha1.PodSet{
		{ObjectMeta: metav1.ObjectMeta{Name: "set", UID: "a"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "set", UID: "b"}},
		{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", 63), UID: "c"}},
		{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", 47) + ".-." + strings.Repeat("x", 13), UID: "d"}},
	} {
		for slot := range 10 {
			for n := range 10 {
				name := podName(ps, slot, n)
				what := fmt.Sprint(ps.UID, slot, n)
				if other, taken := names[name]; taken {
					t.Errorf("%s is the name of %s and of %s", name, what, other)
				}
				names[name] = what
				if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 || len(name) > 63 {
					t.Errorf("%s: %v", name, errs)
				}
				if len(ps.Name) < 50 && !strings.HasPrefix(name, ps.Name+"-pod") {
					t.Errorf("%s does not begin with %s-pod", name, ps.Name)
				}
				if name != podName(ps, slot, n) {
					t.Errorf("%s has another name the next time", name)
				}
			}
		}
	}
}

func withTemplate(raw string) *appv1alpha1.PodSet {
	ps := podSet(1, "")
	ps.Spec.Template = &runtime.RawExtension{Raw: []byte(raw)}
	return ps
}

func TestNewPod(t *testing.T) {
	ps := withTemplate(`{"metadata":{"name":"mine","generateName":"g","namespace":"elsewhere","labels":{"app":"other","tier":"web","pod-template-hash":"x"},
		"annotations":{"a":"b"},"finalizers":["example.com/f"],"ownerReferences":[{"kind":"Job","name":"j","uid":"1","apiVersion":"batch/v1"}]},
		"spec":{"containers":[{"name":"a","image":"a:1"}]}}`)
	template, err := Template(ps)
	if err != nil {
		t.Fatal(err)
	}
	got := newPod(ps, template, "hash", vacancy{slot: 3, replacement: 2, failures: 1})
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(ps, 3, 2), Namespace: "ns", Annotations: map[string]string{"a": "b"}, Finalizers: []string{"example.com/f"},
			Labels: map[string]string{
				"app": "set", "version": "v0.1", "tier": "web", "apps.kubernetes.io/pod-index": "3", "pod-template-hash": "hash",
				"app.example.com/podset-replacement": "2", "app.example.com/podset-failures": "1",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "app.example.com/v1alpha1", Kind: "PodSet", Name: "set", UID: "uid", Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a:1"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if template.Labels["app"] != "other" {
		t.Error("the template was changed")
	}
}

// A release that computes other hashes replaces every pod of every PodSet.
func TestHashesStayTheSame(t *testing.T) {
	for raw, want := range map[string]string{
		"": "68b6754d8d",
		`{"spec":{"containers":[{"name":"a","image":"a:1"}]}}`:                                        "7b678f4d77",
		`{"metadata":{"labels":{"b":"c"}},"spec":{"containers":[{"name":"a","image":"a:1"}]}}`:        "5c76554765",
		`{"metadata":{"name":"ignored"},"spec":{"containers":[{"image":"a:1","name":"a"}]}}`:          "7b678f4d77",
		`{"spec":{"containers":[{"name":"a","image":"a:1","resources":{"limits":{"cpu":"1000m"}}}]}}`: "5f76f97d76",
	} {
		template, err := Template(withTemplate(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := hashOf(template); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", raw, got, err, want)
		}
	}
}

func TestTemplateThatCannotBeRead(t *testing.T) {
	for raw, want := range map[string]string{
		`{"spec":{"containers":5}}`:                                      "cannot unmarshal number",
		`{"spec":{"contaniers":[]}}`:                                     `unknown field "contaniers"`,
		`{"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}`: "quantities must match",
	} {
		if _, err := Template(withTemplate(raw)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "spec.template") {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
}
