package sqlstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Bounds of the fleet whose result sets are interrupted.
const (
	crashImages   = 4
	crashPackages = 40
	crashCVEs     = 15
	crashRounds   = 8
)

func crashKey(n int) model.ImageKey {
	return model.ImageKey{ImageID: fmt.Sprint("image-", n), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
}

// crashScores are what build n says of a vulnerability.
func crashScores(n int, v *model.Vulnerability) {
	id, _ := strconv.Atoi(v.ID[len("CVE-"):])
	v.EPSS, v.KEV = &model.EPSS{Score: float64((id*7+n)%10) / 20}, nil
	if (id+n)%3 == 0 {
		v.KEV = []model.KnownExploited{{CVE: v.ID}}
	}
}

// crashAnswer is what build n says of a package. A third of the packages differs from build to build.
func crashAnswer(n, p int) model.PackageAnswer {
	turn := (n + p) / 3
	var answer model.PackageAnswer
	for i := range (turn + p) % 5 {
		id := (p + turn + 2*i) % crashCVEs
		f := model.PackageFinding{Vulnerability: model.Vulnerability{ID: fmt.Sprint("CVE-", id), Namespace: "n", Severity: model.Severities()[(id+turn)%6]}}
		if turn%2 == 0 {
			f.Fix = model.Fix{State: model.FixStateFixed, Versions: []string{"1"}}
		}
		crashScores(n, &f.Vulnerability)
		answer.Findings = append(answer.Findings, f)
	}
	answer.SearchKeys = []model.SearchKey{model.SearchKey(turn)}
	return answer
}

func crashNumber(p store.StoredPackage) int {
	n, _ := strconv.Atoi(p.Name)
	return n
}

// crashBuild is the number of a build that crashStep made.
func crashBuild(g store.ResultSet) int {
	n, _ := strconv.Atoi(g.Build.ID)
	return n
}

// crashSetUp scans the images under build 1, unless that is done.
func crashSetUp(ctx context.Context, s *Store) error {
	current, found, err := s.CurrentResultSet(ctx)
	if err != nil {
		return err
	}
	if !found {
		if current, err = s.StartResultSet(ctx, model.DatabaseBuild{ID: "1"}, "engine", true); err != nil {
			return err
		}
	}
	for n := range crashImages {
		if image, err := s.Image(ctx, store.AllNamespaces(), crashKey(n)); err == nil && image.State == store.StateScanned {
			continue
		}
		if _, err := s.WantImages(ctx, []model.ImageKey{crashKey(n)}); err != nil {
			return err
		}
		var catalog model.Catalog
		for p := n; p < crashPackages; p += n + 1 {
			catalog.Packages = append(catalog.Packages, model.HeldPackage{Package: model.Package{Fingerprint: fmt.Sprint("f", p), Name: fmt.Sprint(p)}})
		}
		if err := s.SaveSBOM(ctx, crashKey(n), store.SBOM{SHA256: "1", Content: []byte("x")}, catalog); err != nil {
			return err
		}
		_, packages, err := s.UnansweredPackages(ctx, crashKey(n))
		if err != nil {
			return err
		}
		if err := crashSave(ctx, s, current.Number, 1, packages); err != nil {
			return err
		}
		if err := s.FinishImage(ctx, crashKey(n), "1"); err != nil {
			return err
		}
	}
	return nil
}

func crashSave(ctx context.Context, s *Store, resultSet int64, build int, packages []store.StoredPackage) error {
	answers := map[int64]model.PackageAnswer{}
	for _, p := range packages {
		answers[p.ID] = crashAnswer(build, crashNumber(p))
	}
	return s.SaveAnswers(ctx, resultSet, answers)
}

// crashStep goes from one result set to the next, and takes up what was interrupted. drop throws the unfinished one away first,
// half-way through.
func crashStep(ctx context.Context, s *Store, drop bool, tell func(string)) error {
	current, _, err := s.CurrentResultSet(ctx)
	if err != nil {
		return err
	}
	target := crashBuild(current) + 1
	next, found, err := s.NextResultSet(ctx)
	if err != nil {
		return err
	}
	if !found || next.State == store.ResultSetPreparing {
		if next, err = s.StartResultSet(ctx, model.DatabaseBuild{ID: fmt.Sprint(target)}, "engine", false); err != nil {
			return err
		}
		tell("started")
		if err := crashQueue(ctx, s, next.Number); err != nil {
			return err
		}
	}
	for n := 0; ; n++ {
		if drop && n == 3 {
			if _, err := s.StartResultSet(ctx, model.DatabaseBuild{ID: fmt.Sprint(target)}, "engine", false); err != nil {
				return err
			}
			tell("dropped")
			return nil
		}
		packages, err := s.QueuedPackages(ctx, next.Number, 5)
		if err != nil {
			return err
		}
		if len(packages) == 0 {
			break
		}
		if err := crashSave(ctx, s, next.Number, target, packages); err != nil {
			return err
		}
		tell("saved")
	}
	all, err := s.Vulnerabilities(ctx, 0, store.MaxKeys)
	if err != nil {
		return err
	}
	for i := range all {
		crashScores(target, &all[i].Vulnerability)
	}
	if err := s.StageScores(ctx, next.Number, all); err != nil {
		return err
	}
	tell("staged")
	if _, err := s.Switch(ctx, next.Number); err != nil {
		return err
	}
	tell("switched")
	return s.Prune(ctx, time.Now().Add(-time.Duration(target%2)*time.Hour))
}

func crashQueue(ctx context.Context, s *Store, next int64) error {
	answered, err := s.AnsweredPackages(ctx, 0, store.MaxKeys)
	if err != nil {
		return err
	}
	ids := make([]int64, len(answered))
	for i, p := range answered {
		ids[i] = p.ID
	}
	if err := s.QueuePackages(ctx, next, ids); err != nil {
		return err
	}
	return s.StartMatching(ctx, next)
}

// TestCrashResultSetsChild goes from result set to result set for ever, and says so after each acknowledged write.
func TestCrashResultSetsChild(t *testing.T) {
	s := openWith(t, crashConfig(t, "TestKilledProcessLeavesOneResultSet"))
	if err := crashSetUp(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		if err := crashStep(t.Context(), s, n%3 == 1, func(step string) { fmt.Println(step) }); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKilledProcessLeavesOneResultSet(t *testing.T) {
	eachDatabase(t, killedProcessLeavesOneResultSet)
}

func killedProcessLeavesOneResultSet(t *testing.T, config Config) {
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	seen := map[string]int{}
	for range budget(crashRounds, 2) {
		command, lines := child(t, "TestCrashResultSetsChild", config)
		last := ""
		// The child goes on while it is being killed, so the point is anywhere behind that line.
		left := 1 + random.IntN(40)
		for lines.Scan() {
			last = lines.Text()
			if left--; left == 0 {
				if err := command.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := command.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		seen[last]++
		s, err := Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		checkResultSet(t, s)
		// Going on gives what there had been without a kill.
		before, _, err := s.CurrentResultSet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := crashStep(t.Context(), s, false, func(string) {}); err != nil {
			t.Fatal(err)
		}
		if after, _, err := s.CurrentResultSet(t.Context()); err != nil || crashBuild(after) != crashBuild(before)+1 {
			t.Errorf("from %+v to %+v, %v", before, after, err)
		}
		checkResultSet(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("killed after %v", seen)
}

func describeCrash(name string, f *model.PackageFinding) string {
	v := &f.Vulnerability
	return fmt.Sprint(name, " ", v.ID, " ", v.Severity, " ", v.EPSS.Score, " ", v.KEV, " ", f.Fix)
}

// checkResultSet expects that everything that is visible is what the current build says.
func checkResultSet(t *testing.T, s *Store) {
	t.Helper()
	checkIntegrity(t, s)
	current, found, err := s.CurrentResultSet(t.Context())
	if err != nil || !found {
		t.Fatalf("%t, %v", found, err)
	}
	for n := range crashImages {
		image, err := s.Image(t.Context(), store.AllNamespaces(), crashKey(n))
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		var counts store.Counts
		for p := n; p < crashPackages; p += n + 1 {
			for _, f := range crashAnswer(crashBuild(current), p).Findings {
				want = append(want, describeCrash(fmt.Sprint(p), &f))
				counts.Add(f.Vulnerability.Severity)
				counts.KEV += len(f.Vulnerability.KEV)
				counts.Fixable += len(f.Fix.Versions)
			}
		}
		page, err := s.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: image.Key, Page: store.Page{Size: store.MaxPageSize}})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range page.Findings {
			got = append(got, describeCrash(f.Package.Name, &f.PackageFinding))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) || image.Counts != counts {
			t.Errorf("build %s, %s: got %d findings, counts %+v; want %d, %+v", current.Build.ID, image.Key, len(got), image.Counts, len(want), counts)
		}
	}
}
