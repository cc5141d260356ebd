package scanner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// nodeNamed returns a node that supports image volumes and user namespaces.
func nodeNamed(name string, mutate func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelHostname: "host-" + name,
		}},
		Status: corev1.NodeStatus{
			NodeInfo:        corev1.NodeSystemInfo{KubeletVersion: "v1.37.1", ContainerRuntimeVersion: "containerd://2.4.2+unknown"},
			RuntimeHandlers: []corev1.NodeRuntimeHandler{{Features: &corev1.NodeRuntimeHandlerFeatures{UserNamespaces: new(true)}}},
		},
	}
	if mutate != nil {
		mutate(node)
	}
	return node
}

func noUserNamespaces(n *corev1.Node) { n.Status.RuntimeHandlers = nil }

// on runs the image a on nodes, for a Scanner.
func (w world) on(scanner *scannerv1.Scanner, nodes ...*corev1.Node) world {
	w.nodes = map[string]*corev1.Node{}
	w.containers = nil
	for _, node := range nodes {
		w.nodes[node.Name] = node
		w.containers = append(w.containers, inventory.Container{Namespace: "ns-a", Pod: "a", Name: "c", Key: imageKey("a"), Node: node.Name})
	}
	w.reads, w.fallback, w.now = readable{scanner, func(string) bool { return true }, w.nodes}, &fallback{}, now
	return w
}

func TestImageVolumeModeHasTheImageMounted(t *testing.T) {
	other := nodeNamed("other", nil)
	for name, tt := range map[string]struct {
		source scannerv1.ImageSource
		nodes  []*corev1.Node
		want   *scanjob.ImageVolume
	}{
		"from the registry": {scannerv1.SourceRegistry, []*corev1.Node{nodeNamed("a", nil)}, nil},
		"in a user namespace": {
			scannerv1.SourceImageVolume, []*corev1.Node{nodeNamed("b", nil), nodeNamed("a", nil)},
			&scanjob.ImageVolume{Nodes: []string{"host-a", "host-b", "host-other"}, UserNamespace: true},
		},
		"a node without user namespaces": {
			scannerv1.SourceImageVolume, []*corev1.Node{nodeNamed("a", nil), nodeNamed("b", noUserNamespaces)},
			&scanjob.ImageVolume{Nodes: []string{"host-a", "host-b", "host-other"}},
		},
		"a kubelet of which the API server may not admit root": {
			scannerv1.SourceImageVolume, []*corev1.Node{nodeNamed("a", func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.34.9" })},
			&scanjob.ImageVolume{Nodes: []string{"host-a", "host-other"}},
		},
		"only another runtime handler has user namespaces": {
			scannerv1.SourceImageVolume, []*corev1.Node{nodeNamed("a", func(n *corev1.Node) { n.Status.RuntimeHandlers[0].Name = "kata" })},
			&scanjob.ImageVolume{Nodes: []string{"host-a", "host-other"}},
		},
		"nodes on which no scan pod runs": {
			scannerv1.SourceImageVolume, []*corev1.Node{
				nodeNamed("tainted", func(n *corev1.Node) {
					noUserNamespaces(n)
					n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
				}),
				nodeNamed("arm", func(n *corev1.Node) { n.Labels[corev1.LabelArchStable] = "arm64" }),
				nodeNamed("nameless", func(n *corev1.Node) { delete(n.Labels, corev1.LabelHostname) }),
				nodeNamed("soft", func(n *corev1.Node) {
					n.Spec.Taints = []corev1.Taint{{Key: "full", Effect: corev1.TaintEffectPreferNoSchedule}}
				}),
			},
			&scanjob.ImageVolume{Nodes: []string{"host-other", "host-soft"}, UserNamespace: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			scanner := scannerWith(func(s *scannerv1.Scanner) { s.Spec.Job.Source = tt.source })
			w := newWorld().runs("a", store.ImageState{State: store.StatePending}).on(scanner, append(tt.nodes, other)...)
			if diff := cmp.Diff(tt.want, requestNext(scanner, w, imageKey("a")).Volume); diff != "" {
				t.Errorf("volume (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImageVolumesAreOnNodesOfTheSpec(t *testing.T) {
	pool := func(n *corev1.Node) { n.Labels["pool"] = "scans" }
	tainted := func(n *corev1.Node) {
		pool(n)
		n.Spec.Taints = []corev1.Taint{{Key: "scans", Effect: corev1.TaintEffectNoExecute}}
	}
	scanner := scannerWith(func(s *scannerv1.Scanner) {
		s.Spec.Job.Source, s.Spec.Job.NodeSelector = scannerv1.SourceImageVolume, map[string]string{"pool": "scans"}
		s.Spec.Job.Tolerations = []corev1.Toleration{{Key: "scans", Operator: corev1.TolerationOpExists}}
	})
	w := newWorld().runs("a", store.ImageState{State: store.StatePending}).on(scanner, nodeNamed("a", noUserNamespaces), nodeNamed("b", pool), nodeNamed("c", tainted))
	want := &scanjob.ImageVolume{Nodes: []string{"host-b", "host-c"}, UserNamespace: true}
	if diff := cmp.Diff(want, requestNext(scanner, w, imageKey("a")).Volume); diff != "" {
		t.Errorf("volume (-want +got):\n%s", diff)
	}
}

func TestImageVolumesBoundTheirNodes(t *testing.T) {
	var nodes []*corev1.Node
	for i := range maxRunning + 20 {
		nodes = append(nodes, nodeNamed(fmt.Sprint(i), nil))
	}
	scanner := scannerWith(func(s *scannerv1.Scanner) { s.Spec.Job.Source = scannerv1.SourceImageVolume })
	w := newWorld().runs("a", store.ImageState{State: store.StatePending}).on(scanner, nodes...)
	if volume := requestNext(scanner, w, imageKey("a")).Volume; len(volume.Nodes) != maxRunning || len(w.runsIn[imageKey("a")].nodes) != maxRunning {
		t.Errorf("%d nodes preferred, %d known, want %d", len(volume.Nodes), len(w.runsIn[imageKey("a")].nodes), maxRunning)
	}
}

// A node mounts and reads a limited number of images at a time, whichever Scanners they are for.
func TestNodesLimitScansOfVolumes(t *testing.T) {
	a, b, pending := nodeNamed("a", nil), nodeNamed("b", nil), store.ImageState{State: store.StatePending}
	onA, towardA := Attempt{RunsOn: "a"}, Attempt{Hosts: []string{"host-a", "host-b"}}
	movedToB := Attempt{Hosts: []string{"host-a", "host-b"}, RunsOn: "b"}
	late := Attempt{Hosts: []string{"host-a"}, Namespace: "ns-other", Created: now.Add(-time.Hour)}
	fromRegistry := Attempt{RunsOn: "a"}
	for name, tt := range map[string]struct {
		active []Attempt
		nodes  []*corev1.Node
		want   []string
	}{
		"a free node":                  {nil, []*corev1.Node{a}, []string{"host-a"}},
		"one slot is left":             {[]Attempt{onA}, []*corev1.Node{a}, []string{"host-a"}},
		"full":                         {[]Attempt{onA, onA}, []*corev1.Node{a}, nil},
		"full of scans without a node": {[]Attempt{onA, towardA}, []*corev1.Node{a}, nil},
		"another node is free":         {[]Attempt{onA, towardA}, []*corev1.Node{a, b}, []string{"host-b"}},
		"most free slots first":        {[]Attempt{onA}, []*corev1.Node{a, b}, []string{"host-b", "host-a"}},
		"all full":                     {[]Attempt{onA, onA, movedToB, movedToB}, []*corev1.Node{a, b}, nil},
		"late scans hold slots of their namespace": {[]Attempt{late, late}, []*corev1.Node{a}, []string{"host-a"}},
		"scans of registries do not count":         {[]Attempt{fromRegistry, fromRegistry, fromRegistry}, []*corev1.Node{a}, []string{"host-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().runs("a", pending).on(scannerWith(nil), tt.nodes...)
			for i, attempt := range tt.active {
				attempt.Key, attempt.ScannerUID = imageKey(fmt.Sprint(i)), "other"
				attempt.Volume = name != "scans of registries do not count"
				w.active = append(w.active, attempt)
			}
			p := makePlan(scannerWith(nil), w.observed, Limits{Scans: 10, PerRegistry: 10, PerNode: 2}, Recatalog{}, now)
			var got []string
			for i := range p.start {
				got = p.start[i].Volume.Nodes
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			waiting := p.waits[imageKey("a")]
			if tt.want == nil && (p.queued != 1 || !strings.Contains(waiting.why, "2 scan slots of each node")) {
				t.Errorf("%d images are queued: %+v", p.queued, waiting)
			}
		})
	}
}

// Images that are planned together share the slots, too.
func TestPlanFillsNodes(t *testing.T) {
	node, pending := nodeNamed("a", nil), store.ImageState{State: store.StatePending}
	wide := scannerWith(func(s *scannerv1.Scanner) { s.Spec.Concurrency = new(int32(50)) })
	w := newWorld().runs("a", pending).on(wide, node)
	for _, name := range []string{"b", "c", "d"} {
		w = w.runs(name, pending)
		w.containers[len(w.containers)-1].Node = "a"
	}
	if p := makePlan(wide, w.observed, Limits{Scans: 10, PerRegistry: 10, PerNode: 3}, Recatalog{}, now); len(p.start) != 3 || p.queued != 1 {
		t.Errorf("%d scans are started and %d images queued, want 3 and 1", len(p.start), p.queued)
	}
}

// An image that was built on a node has no repository: only its nodes can mount it.
func TestImagesWithoutRepositoryAreReadFromTheirNodes(t *testing.T) {
	id := "sha256:" + strings.Repeat("b", 64)
	key := model.ImageKey{ImageID: id, Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	for name, tt := range map[string]struct {
		source scannerv1.ImageSource
		node   *corev1.Node
		want   *scanjob.ImageVolume
	}{
		"from registries":                     {scannerv1.SourceRegistry, nodeNamed("a", nil), nil},
		"from volumes":                        {scannerv1.SourceImageVolume, nodeNamed("a", nil), &scanjob.ImageVolume{Nodes: []string{"host-a"}, Required: true, UserNamespace: true}},
		"chosen":                              {"", nodeNamed("a", nil), &scanjob.ImageVolume{Nodes: []string{"host-a"}, Required: true, UserNamespace: true}},
		"chosen, without user namespaces":     {scannerv1.SourceAuto, nodeNamed("a", noUserNamespaces), &scanjob.ImageVolume{Nodes: []string{"host-a"}, Required: true}},
		"chosen, a node that cannot mount it": {scannerv1.SourceAuto, nodeNamed("a", func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.34.0" }), nil},
	} {
		pod := podOf("a", id, 0)
		pod.Spec.NodeName = tt.node.Name
		known, cataloger := memory{}, &starter{attempts: map[string]Attempt{}}
		r, _ := newReconciler(t, known, cataloger, scannerWith(func(s *scannerv1.Scanner) { s.Spec.Job.Source = tt.source }), pod, tt.node)
		_, scanner := reconcileOnce(t, r)
		if tt.want == nil {
			if len(cataloger.requests) > 0 || len(known) > 0 || scanner.Status.Containers.Failed != 1 {
				t.Errorf("%s: started %v, %+v; want the container failed", name, cataloger.started, scanner.Status.Containers)
			}
			continue
		}
		if len(cataloger.requests) != 1 || cataloger.requests[0].Key != key || scanner.Status.Containers.Pending != 1 {
			t.Errorf("%s: started %v, %+v", name, cataloger.started, scanner.Status.Containers)
			continue
		}
		if diff := cmp.Diff(tt.want, cataloger.requests[0].Volume); diff != "" {
			t.Errorf("%s: volume (-want +got):\n%s", name, diff)
		}
	}
}

func TestAutoUsesVolumesOfNodesThatHaveTheImage(t *testing.T) {
	software := func(kubelet, runtime string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: kubelet, ContainerRuntimeVersion: runtime}
		}
	}
	for name, tt := range map[string]struct {
		node func(*corev1.Node)
		want bool
	}{
		"containerd":                 {nil, true},
		"the first containerd":       {software("v1.35.0", "containerd://2.1.0"), true},
		"an old containerd":          {software("v1.37.1", "containerd://2.0.9"), false},
		"a very old containerd":      {software("v1.37.1", "containerd://1.7.27"), false},
		"a distribution":             {software("v1.36.2+k3s1", "containerd://2.2.3-k3s1"), true},
		"CRI-O":                      {software("v1.35.4", "cri-o://1.35.0"), true},
		"an old kubelet":             {software("v1.34.9", "containerd://2.1.0"), false},
		"another runtime":            {software("v1.37.1", "docker://29.0.0"), false},
		"a runtime without version":  {software("v1.37.1", "containerd"), false},
		"a simulated node":           {software("fake", ""), false},
		"without user namespaces":    {noUserNamespaces, false},
		"a node of another platform": {func(n *corev1.Node) { n.Labels[corev1.LabelArchStable] = "arm64" }, false},
		"a node without scan pods": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		}, false},
	} {
		w := newWorld().runs("a", store.ImageState{State: store.StatePending}).on(scannerWith(nil), nodeNamed("a", tt.node))
		var want *scanjob.ImageVolume
		if tt.want {
			want = &scanjob.ImageVolume{Nodes: []string{"host-a"}, Required: true, UserNamespace: true, Auto: true}
		}
		if diff := cmp.Diff(want, requestNext(scannerWith(nil), w, imageKey("a")).Volume); diff != "" {
			t.Errorf("%s: volume (-want +got):\n%s", name, diff)
		}
	}
	// Nodes without the image would have to pull it.
	w := newWorld().runs("a", store.ImageState{State: store.StatePending}).on(scannerWith(nil), nodeNamed("a", noUserNamespaces))
	w.nodes["b"] = nodeNamed("b", nil)
	if volume := requestNext(scannerWith(nil), w, imageKey("a")).Volume; volume != nil {
		t.Errorf("volume %+v on a node without the image", volume)
	}
	w.reads.mounts = func(string) bool { return false }
	w.nodes["a"] = nodeNamed("a", nil)
	if volume := requestNext(scannerWith(nil), w, imageKey("a")).Volume; volume != nil {
		t.Errorf("volume %+v of an attempt that is no pod", volume)
	}
}
