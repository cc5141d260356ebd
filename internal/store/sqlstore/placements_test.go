package sqlstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// placedModel computes what reaches with places have from what a store says of the reaches and of what runs, each with each.
type placedModel struct {
	// members are the reaches whose places each reach has, joined the reaches by the text of their members.
	members map[int64][]int64
	joined  map[string]int64
	// patterns and places are those of the reaches of decisions.
	patterns map[int64][]string
	places   map[int64][]store.Workload
	// suppressing are the reaches of decisions that suppress a finding.
	suppressing map[int64][]int64
}

func readPlaced(s *Store) (*placedModel, error) {
	m := &placedModel{
		members: map[int64][]int64{}, joined: map[string]int64{}, patterns: map[int64][]string{}, places: map[int64][]store.Workload{}, suppressing: map[int64][]int64{},
	}
	tx := s.db.Reader()
	var rows []struct {
		Reach         int64
		Members, Spec string
	}
	if err := tx.Raw("SELECT q.reach, q.members, r.spec FROM placed_reaches q JOIN reaches r ON r.id = q.reach").Scan(&rows).Error; err != nil {
		return nil, err
	}
	for _, row := range rows {
		var spec reachSpec
		if err := fromJSON(row.Spec, &spec); err != nil {
			return nil, err
		}
		if m.patterns[row.Reach] = spec.Images; row.Members == "" {
			m.members[row.Reach] = []int64{row.Reach}
			continue
		}
		m.joined[row.Members] = row.Reach
		for text := range strings.SplitSeq(row.Members, ",") {
			id, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, err
			}
			m.members[row.Reach] = append(m.members[row.Reach], id)
		}
	}
	var places []struct {
		Reach    int64
		Workload store.Workload `gorm:"embedded"`
	}
	err := tx.Raw("SELECT reach, namespace, kind, name FROM reach_places").Scan(&places).Error
	for _, row := range places {
		m.places[row.Reach] = append(m.places[row.Reach], row.Workload)
	}
	return m, err
}

func (m *placedModel) suppress(finding, reach int64) {
	if !slices.Contains(m.suppressing[finding], reach) {
		m.suppressing[finding] = append(m.suppressing[finding], reach)
	}
}

// suppressed are the rows of finding_suppressions that follow.
func (m *placedModel) suppressed() []suppressed {
	var all []suppressed
	for finding, reaches := range m.suppressing {
		if len(reaches) == 1 {
			all = append(all, suppressed{finding, reaches[0]})
			continue
		}
		slices.Sort(reaches)
		all = append(all, suppressed{finding, m.joined[strings.Trim(strings.ReplaceAll(fmt.Sprint(reaches), " ", ","), "[]")]})
	}
	return all
}

func (m *placedModel) covers(t *testing.T, reach int64, imageID string, at store.Workload) bool {
	t.Helper()
	return slices.ContainsFunc(m.members[reach], func(member int64) bool {
		about := len(m.patterns[member]) == 0
		for _, text := range m.patterns[member] {
			pattern, err := decision.ParseImagePattern(text)
			if err != nil {
				t.Fatal(err)
			}
			image := decision.ImageOf(imageID)
			about = about || pattern.Matches(&image)
		}
		return about && (slices.Contains(m.places[member], at) || slices.Contains(m.places[member], store.Workload{Namespace: at.Namespace}))
	})
}

// check compares reached_namespaces and reached_workloads, and returns the rows that reached should have.
func (m *placedModel) check(t *testing.T, s *Store) []imageReach {
	t.Helper()
	var places []struct {
		ImagePk  int64
		ImageID  string
		Workload store.Workload `gorm:"embedded"`
	}
	err := s.db.Reader().Raw(`SELECT i.id AS image_pk, i.image_id, u.namespace, u.kind, u.name FROM images i JOIN image_uses u ON u.image_pk = i.id
		UNION SELECT i.id, i.image_id, n.namespace, '', '' FROM images i JOIN image_namespaces n ON n.image_pk = i.id
			WHERE NOT EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = i.id AND u.namespace = n.namespace)`).Scan(&places).Error
	if err != nil {
		t.Fatal(err)
	}
	var whole []imageReach
	var want []string
	for reach := range m.members {
		open, covered := map[int64]bool{}, map[int64]bool{}
		in := map[string][2]int{} // The places that are covered and those that are not, by image and namespace.
		var workloads []string
		for _, at := range places {
			key := fmt.Sprint(reach, " ", at.ImagePk, " ", at.Workload.Namespace)
			n := in[key]
			if m.covers(t, reach, at.ImageID, at.Workload) {
				covered[at.ImagePk] = true
				n[0]++
				workloads = append(workloads, fmt.Sprint(key, " ", at.Workload.Kind, " ", at.Workload.Name))
			} else {
				open[at.ImagePk] = true
				n[1]++
			}
			in[key] = n
		}
		for image := range covered {
			if !open[image] {
				whole = append(whole, imageReach{reach, image})
			}
		}
		for key, n := range in {
			if n[0] > 0 {
				want = append(want, fmt.Sprint(key, " partly: ", n[1] > 0))
			}
		}
		for _, text := range workloads {
			fields := strings.Split(text, " ")
			if in[strings.Join(fields[:3], " ")][1] > 0 {
				want = append(want, text)
			}
		}
	}
	var got []string
	var namespaces []namespaceReach
	var workloads []workloadReach
	if err := s.db.Reader().Raw("SELECT reach, image_pk, namespace, partly FROM reached_namespaces").Scan(&namespaces).Error; err != nil {
		t.Fatal(err)
	}
	if err := s.db.Reader().Raw("SELECT reach, image_pk, namespace, kind, name FROM reached_workloads").Scan(&workloads).Error; err != nil {
		t.Fatal(err)
	}
	for _, row := range namespaces {
		got = append(got, fmt.Sprint(row.Reach, " ", row.ImagePk, " ", row.Namespace, " partly: ", row.Partly > 0))
	}
	for _, row := range workloads {
		got = append(got, fmt.Sprint(row.Reach, " ", row.ImagePk, " ", row.Namespace, " ", row.Kind, " ", row.Name))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places of reaches (-want +got):\n%s", diff)
	}
	return whole
}
