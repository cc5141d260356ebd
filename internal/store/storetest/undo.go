package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// undone are rollouts that come of what a container runs from minute to minute. Images have one letter: "A" is "a" on another platform. "."
// is a minute in which nothing runs.
var undone = map[string]struct{ steps, want string }{
	"a rolling update":                    {"a,ab,b", "a>b"},
	"the same, many pods":                 {"a,ab,ab,ab,b,b", "a>b"},
	"undone half-way":                     {"a,ab,a", "a>b b>a"},
	"undone at the end":                   {"a,ab,b,ab,a", "a>b b>a"},
	"undone late":                         {"a,ab,b,b,b,ab,ab,a", "a>b b>a"},
	"undone after the gap":                {"a,ab,b,b,b,b,b,b,b,b,b,b,b,b,ab,a", "a>b b>a"},
	"undone at once":                      {"a,ab,b,a", "a>b b>a"},
	"undone after a pause":                {"a,ab,b,.,a", "a>b b>a"},
	"undone on another platform":          {"a,ab,b,.,A", "a>b b>A"},
	"undone and done again":               {"a,ab,a,ab,b", "a>b b>a a>b"},
	"undone twice":                        {"a,ab,a,ab,b,ab,a", "a>b b>a a>b b>a"},
	"undone and then another":             {"a,ab,a,ac,c", "a>b b>a a>c"},
	"replaced half-way":                   {"a,ab,ac,c", "a>b a>c"},
	"replaced half-way, then undone":      {"a,ab,abc,ac,a", "a>b b>c c>a"},
	"all at once":                         {"a,b,a,b", "a>b b>a a>b"},
	"a pause":                             {"a,ab,b,.,b,.,b", "a>b"},
	"a pause half-way":                    {"a,ab,.,ab,b", "a>b"},
	"scaled to nothing":                   {"a,ab,b,.", "a>b"},
	"for good beside another":             {"a,ab,ab,ab,ab,ab,ab,ab,ab,ab,ab,ab,ab", "a>b"},
	"a canary that comes and goes":        {"a,ab,a,ab,a,ab,a,ab,a", "a>b b>a"},
	"what was there first comes and goes": {"a,ab,b,ab,b,ab,b,ab,b", "a>b"},
	"first seen half-way":                 {"ab,b", ""},
	"two platforms":                       {"aA,A,aA,a,aA", ""},
	"two platforms, updated":              {"aA,aAb,bB,B,bB", "A>b"},
	"two platforms, one of them gone":     {"a,abB,aB,ab,aB", "a>b"},
	"two platforms, undone":               {"a,ab,abB,aB,a", "a>b B>a"},
}

// lettered is the image of a letter.
func lettered(letter rune) model.ImageKey {
	platform := amd64
	if strings.ToLower(string(letter)) != string(letter) {
		platform = arm64
	}
	lower := strings.ToLower(string(letter))
	return image(strings.Repeat(lower, int(lower[0]-'a')+1), platform)
}

// letter is the letter of an image.
func letter(key model.ImageKey) string {
	first := short(key)[:1]
	if key.Platform != amd64 {
		return strings.ToUpper(first)
	}
	return first
}

// step has a workload run images for a minute.
func (f *fixture) step(t *testing.T, minute int, workload, images string) {
	t.Helper()
	var keys []model.ImageKey
	for _, name := range strings.Trim(images, ".") {
		keys = append(keys, lettered(name))
	}
	f.runAt(t, minute, workload, runs(workload, keys...)...)
}

// story tells the rollouts of a workload, the first ones first.
func (f *fixture) story(t *testing.T, workload string) string {
	t.Helper()
	var told []string
	for _, r := range f.rollouts(t, store.RolloutQuery{Workload: workload, Page: store.Page{Size: 1000}}).Rollouts {
		told = append(told, letter(r.From.Image)+">"+letter(r.To.Image))
	}
	slices.Reverse(told)
	return strings.Join(told, " ")
}

var undoTests = map[string]func(*testing.T, *fixture){
	"Rollouts that are undone": func(t *testing.T, f *fixture) {
		f.want(t, lettered('a'), lettered('A'), lettered('b'), lettered('B'), lettered('c'))
		for name, c := range undone {
			for minute, images := range strings.Split(c.steps, ",") {
				f.step(t, minute, name, images)
				f.step(t, minute, name, images) // As after a restart.
			}
			if diff := cmp.Diff(c.want, f.story(t, name)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", name, c.steps, diff)
			}
		}
	},
	"Many rollouts are undone at once": func(t *testing.T, f *fixture) {
		a, b := lettered('a'), lettered('b')
		f.want(t, a, b)
		const workloads = 700
		for minute, keys := range [][]model.ImageKey{{a}, {a, b}, {a}} {
			var uses []store.Use
			for n := range workloads {
				uses = append(uses, runs(fmt.Sprint("w", n), keys...)...)
			}
			f.runAt(t, minute, "s", uses...)
		}
		since := day.Add(2 * time.Minute)
		if got := f.rollouts(t, store.RolloutQuery{Since: since}).Total; got != workloads {
			t.Errorf("%d of %d rollouts were seen to be undone", got, workloads)
		}
	},
}

// randomRollouts runs any images from minute to minute. Once there was a rollout, the latest one is to an image that runs, if any does; none
// is to the image of the one before it; and while the image of the latest one stays and no other begins there is no other.
func randomRollouts(t *testing.T, f *fixture, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 7))
	const all = "aAbBc"
	for _, name := range all {
		f.want(t, lettered(name))
	}
	var steps, rolled []string
	before := ""
	for minute := range rolloutSteps {
		images := strings.Map(func(name rune) rune {
			if random.IntN(3) == 0 {
				return name
			}
			return -1
		}, all)
		f.step(t, minute, "web", images)
		steps = append(steps, images+".")
		now := strings.Fields(strings.ToLower(f.story(t, "web")))
		for i := range now {
			if now[i][:1] == now[i][2:] || i > 0 && now[i][2:] == now[i-1][2:] {
				t.Fatalf("%v: rollout %d is none: %v", steps, i, now)
			}
		}
		if len(now) > 0 && images != "" && !strings.Contains(strings.ToLower(images), now[len(now)-1][2:]) {
			t.Fatalf("%v: the latest rollout is to what does not run: %v", steps, now)
		}
		settled := len(rolled) > 0 && strings.Contains(strings.ToLower(images), rolled[len(rolled)-1][2:]) && strings.Trim(images, before) == ""
		if settled && len(now) > len(rolled) {
			t.Fatalf("%v: nothing took the place of anything: %v", steps, now)
		}
		before, rolled = images, now
	}
	if len(rolled) == 0 {
		t.Error("there was no rollout")
	}
}
