package matching

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// killed is the environment variable that makes this program the child of TestKill.
const killed = "MATCHING_TEST_KILLED"

// order is what the child is to do.
type order struct {
	Store  string
	Builds []vulndb.Installed
	// Stage is where the child stops and waits for its end; Race makes it go on while it is being killed.
	Stage string
	Race  bool
}

func TestMain(m *testing.M) {
	if text := os.Getenv(killed); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1) //nolint:forbidigo // this is a main
		}
		return
	}
	os.Exit(m.Run()) //nolint:forbidigo // this is a main
}

func child(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	s, err := sqlstore.Open(context.Background(), sqlstore.Config{DSN: o.Store, Log: logr.Discard(), Clock: clock.RealClock{}})
	if err != nil {
		return err
	}
	stages := &stages{order: o}
	a := New(&staged{s, stages}, &stagedLibrary{newShelf(o.Builds...), stages}, &counter{}, clock.RealClock{}, logr.Discard())
	r := &runner{Matcher: a}
	if err := r.pass(context.Background()); err != nil {
		return err
	}
	fmt.Println("finished")
	return nil
}

// stages announces where the child is.
type stages struct {
	order order
	seen  map[string]int
}

// reach tells the parent of the stage that it waits for, and waits for the end.
func (s *stages) reach(name string) {
	if s.seen == nil {
		s.seen = map[string]int{}
	}
	s.seen[name]++
	if fmt.Sprintf("%s %d", name, s.seen[name]) != s.order.Stage {
		return
	}
	fmt.Println(s.order.Stage)
	if !s.order.Race {
		select {}
	}
}

// staged is a store that announces what is about to be written, and what was.
type staged struct {
	*sqlstore.Store
	stages *stages
}

func (s *staged) StartResultSet(ctx context.Context, build model.DatabaseBuild, engine string, full bool) (store.ResultSet, error) {
	s.stages.reach("start")
	return s.Store.StartResultSet(ctx, build, engine, full)
}

func (s *staged) QueuePackages(ctx context.Context, resultSet int64, ids []int64) error {
	s.stages.reach("queue")
	return s.Store.QueuePackages(ctx, resultSet, ids)
}

func (s *staged) StartMatching(ctx context.Context, resultSet int64) error {
	s.stages.reach("queued")
	return s.Store.StartMatching(ctx, resultSet)
}

func (s *staged) SaveAnswers(ctx context.Context, resultSet int64, answers map[int64]model.PackageAnswer) error {
	s.stages.reach("match")
	return s.Store.SaveAnswers(ctx, resultSet, answers)
}

func (s *staged) StageScores(ctx context.Context, resultSet int64, vulnerabilities []store.StoredVulnerability) error {
	s.stages.reach("scores")
	return s.Store.StageScores(ctx, resultSet, vulnerabilities)
}

func (s *staged) Switch(ctx context.Context, resultSet int64) (store.ResultSet, error) {
	s.stages.reach("switch")
	g, err := s.Store.Switch(ctx, resultSet)
	s.stages.reach("switched")
	return g, err
}

// stagedLibrary announces the difference of the databases, which begins with the one before.
type stagedLibrary struct {
	*shelf
	stages *stages
}

func (l *stagedLibrary) Installed(buildID string) (vulndb.Installed, bool) {
	l.stages.reach("difference")
	return l.shelf.Installed(buildID)
}

// TestKill kills the process at every stage of a re-match. What people see is the old answer or the new one, as a whole; going
// on ends with the new one.
func TestKill(t *testing.T) {
	before := dbtest.Sample(t)
	after := dbtest.Mutate(t, before, 1, append(dbtest.Fraction(0.6), dbtest.Change{Kind: dbtest.EPSS, Fraction: 1})...)
	images := fleet(t, before, 4, 1)
	updated := fresh(t, images, after)
	prepared := filepath.Join(t.TempDir(), "db")
	s := openStore(t, prepared)
	a, _ := newMatcher(t, s, newShelf(before))
	fill(t, a, s, images)
	settle(t, a)
	old := pictures(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(prepared)
	if err != nil {
		t.Fatal(err)
	}
	stages := []string{"start 1", "difference 2", "queue 1", "queued 1", "match 1", "scores 1", "switch 1", "switched 1"}
	inTheMiddle := []string{"match 1", "switch 1"} // The others take too short.
	for _, stage := range stages {
		for _, race := range []bool{false, true} {
			if race && !slices.Contains(inTheMiddle, stage) {
				continue
			}
			t.Run(fmt.Sprintf("%s race=%t", stage, race), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "db")
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
				killAt(t, order{Store: path, Builds: []vulndb.Installed{before, after}, Stage: stage, Race: race})

				s := openStore(t, path)
				visible := pictures(t, s)
				want := old
				for _, p := range visible {
					if p.Database == after.Build.ID {
						want = updated
					}
				}
				same(t, want, visible)
				a, _ := newMatcher(t, s, newShelf(before, after))
				settle(t, a)
				same(t, updated, pictures(t, s))
				if next, found, err := s.NextResultSet(t.Context()); err != nil || found {
					t.Errorf("result set %d is left over, %v", next.Number, err)
				}
			})
		}
	}
}

// killAt runs the child and kills it as soon as it tells of the stage.
func killAt(t *testing.T, o order) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killed+"="+string(text))
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	reached := false
	for !reached && lines.Scan() {
		reached = strings.TrimSpace(lines.Text()) == o.Stage
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if !reached {
		t.Fatalf("the child never came to %q", o.Stage)
	}
}
