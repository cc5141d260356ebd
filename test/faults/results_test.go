//go:build faults

package faults

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// line is what is kept of a run: of an undisturbed one the positions, of one with a fault the result.
type line struct {
	Scenario string `json:"scenario"`
	// Build is the hash of the operator.
	Build string `json:"build"`
	// Positions are set of undisturbed runs only, Kind to Reason of others.
	Positions map[string]int `json:"positions,omitempty"`
	Kind      string         `json:"kind,omitempty"`
	N         int            `json:"n,omitempty"`
	Fault     string         `json:"fault,omitempty"`
	Result    string         `json:"result,omitempty"`
	// Quiet is for how long the operator had to write nothing, Took how long the run took with all that it waited for, in seconds.
	Quiet float64 `json:"quiet,omitempty"`
	Took  float64 `json:"took,omitempty"`
	// Reason is why it failed, and where the log of the operator is.
	Reason string `json:"reason,omitempty"`
}

// The results of a point.
const (
	passed     = "ok"
	failed     = "failed"
	notReached = "not reached"
)

func (l *line) at() point { return point{l.Kind, l.N, l.Fault} }

// maxLine bounds a line of the file.
const maxLine = 1 << 20

// results are those of all points: of this run, and of earlier ones with the same file.
var results record

// record holds lines, and appends those of this run to a file.
type record struct {
	mu    sync.Mutex
	build string
	lines []line
	// file is nil where nothing is kept.
	file *os.File
}

// open reads the lines of a file, if there is one, and has those that come be appended to it. "" is no file. Several processes may append to
// one file.
func (r *record) open(path string) error {
	if path == "" {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if r.lines, err = readLines(content); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if r.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	if len(content) > 0 && content[len(content)-1] != '\n' {
		// The run that wrote it was interrupted.
		_, err = r.file.WriteString("\n")
	}
	return err
}

// readLines reads the lines of a file. A run that was interrupted may have left one that is not complete, which does not count.
func readLines(content []byte) (lines []line, err error) {
	scanner := bufio.NewScanner(bytes.NewReader(content))
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		var l line
		if json.Unmarshal(scanner.Bytes(), &l) == nil && l.Scenario != "" {
			lines = append(lines, l)
		}
	}
	return lines, scanner.Err()
}

// add keeps a line.
func (r *record) add(l line) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.Build = r.build
	r.lines = append(r.lines, l)
	if r.file == nil {
		return nil
	}
	content, err := json.Marshal(l)
	if err != nil {
		return err
	}
	// At once, so that lines of several processes do not mix.
	_, err = r.file.Write(append(content, '\n'))
	return err
}

// use says which programs the lines to come are about.
func (r *record) use(programs ...string) error {
	hash := sha256.New()
	for _, program := range slices.Compact(programs) {
		file, err := os.Open(program)
		if err != nil {
			return err
		}
		_, err = io.Copy(hash, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.build = fmt.Sprintf("%x", hash.Sum(nil)[:8])
	return nil
}

// current returns the lines about the operator of this run, or, if it runs none, about that of the last line.
func (r *record) current() (lines []line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	build := r.build
	if build == "" && len(r.lines) > 0 {
		build = r.lines[len(r.lines)-1].Build
	}
	for i := range r.lines {
		if r.lines[i].Build == build {
			lines = append(lines, r.lines[i])
		}
	}
	return lines
}

// enumerated returns the positions of a scenario that an earlier run with this operator recorded, nil if none did. The last one counts: the
// points that are left are those of one enumeration.
func (r *record) enumerated(scenario string) (positions map[string]int) {
	for _, l := range r.current() {
		if l.Scenario == scenario && l.Positions != nil {
			positions = l.Positions
		}
	}
	return positions
}

// left returns the points that no run with this operator has finished, and those that failed.
func (r *record) left(scenario string, points []point, quiet time.Duration) []point {
	done := map[point]bool{}
	for _, l := range r.current() {
		if l.Scenario == scenario && l.Positions == nil {
			done[l.at()] = l.Result != failed && l.Quiet >= quiet.Seconds()
		}
	}
	return slices.DeleteFunc(slices.Clone(points), func(p point) bool { return done[p] })
}

// shard is a part of all points: part i of n, from 1.
type shard struct{ part, of int }

// String is the reverse of Set.
func (s *shard) String() string { return fmt.Sprintf("%d/%d", s.part, s.of) }

// Set reads i/n.
func (s *shard) Set(text string) error {
	part, of, found := strings.Cut(text, "/")
	var err error
	if s.part, err = strconv.Atoi(part); err == nil && found {
		s.of, err = strconv.Atoi(of)
	}
	if err != nil || !found || s.part < 1 || s.part > s.of {
		return fmt.Errorf("%q is not a part i/n with 1 <= i <= n, such as 1/4", text)
	}
	return nil
}

// holds says whether a point is in this part. This follows from its name: enumerations that differ in some points put the others into the same
// parts.
func (s *shard) holds(scenario string, at point) bool {
	hash := fnv.New32a()
	_, _ = io.WriteString(hash, scenario+"/"+at.String())
	return int(hash.Sum32()%uint32(s.of)) == s.part-1
}

// choose returns the points of this part.
func (s *shard) choose(scenario string, points []point) []point {
	return slices.DeleteFunc(slices.Clone(points), func(p point) bool { return !s.holds(scenario, p) })
}

func TestShards(t *testing.T) {
	var points []point
	for n := range 50 {
		points = append(points, point{"create-jobs", n + 1, "reset"})
	}
	var all []point
	for i := range 3 {
		part := shard{i + 1, 3}
		chosen := part.choose("new-image", points)
		if len(chosen) == 0 || len(chosen) == len(points) {
			t.Errorf("part %s has %d of %d points", &part, len(chosen), len(points))
		}
		// More points do not move the others.
		if more := part.choose("new-image", append(slices.Clone(points), point{"create-jobs", 51, "reset"})); !slices.Equal(more[:len(chosen)], chosen) {
			t.Errorf("part %s has %v, and %v when there is one point more", &part, chosen, more)
		}
		all = append(all, chosen...)
	}
	slices.SortFunc(all, func(a, b point) int { return a.n - b.n })
	if !slices.Equal(all, points) {
		t.Errorf("the parts have %v", all)
	}
	for _, text := range []string{"", "1", "0/2", "3/2", "1/0", "a/2", "1/b", "-1/2", "1/2/3"} {
		if err := new(shard).Set(text); err == nil {
			t.Errorf("%q is a part", text)
		}
	}
}

func TestInterruptedRunLosesNothing(t *testing.T) {
	path := t.TempDir() + "/faults.jsonl"
	points := []point{{"create-jobs", 1, "reset"}, {"create-jobs", 1, "409"}, {"create-jobs", 1, "500"}, {"create-jobs", 1, "hang"}, {"create-jobs", 1, "429"}}
	begin := func() *record {
		t.Helper()
		r := &record{build: "a"}
		if err := r.open(path); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.file.Close() })
		return r
	}
	r := begin()
	if got := r.enumerated("s"); got != nil {
		t.Errorf("a new file has the positions %v", got)
	}
	add := func(l line) {
		t.Helper()
		if err := r.add(l); err != nil {
			t.Fatal(err)
		}
	}
	result := func(at point, result string, quiet float64) line {
		return line{Scenario: "s", Kind: at.kind, N: at.n, Fault: at.fault, Result: result, Quiet: quiet}
	}
	add(line{Scenario: "s", Positions: map[string]int{"create-jobs": 1}})
	add(result(points[0], passed, 60))
	add(result(points[1], failed, 60))
	add(result(points[2], notReached, 60))
	add(result(points[3], passed, 3))
	// The process ends while it writes.
	if _, err := r.file.WriteString(`{"scenario":"s","build":"a","kind":"create-jobs","n":1,"fault":"429","res`); err != nil {
		t.Fatal(err)
	}

	r = begin()
	if got := r.enumerated("s"); got["create-jobs"] != 1 {
		t.Errorf("positions: %v", got)
	}
	// What failed is run again, also what was watched for too short a time.
	if got, want := r.left("s", points, time.Minute), []point{points[1], points[3], points[4]}; !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
	add(result(points[4], passed, 60))
	if r = begin(); len(r.left("s", points[4:], time.Minute)) != 0 {
		t.Error("the line after one that is not complete was lost")
	}
	r.build = "b"
	if got := r.left("s", points, time.Minute); r.enumerated("s") != nil || len(got) != len(points) {
		t.Errorf("with another operator, %v are left", got)
	}
}
