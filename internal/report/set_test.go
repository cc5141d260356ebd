package report_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/owenrumney/go-sarif/sarif"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
)

var setFormats = []report.Format{report.FormatCycloneDX, report.FormatSPDX, report.FormatSARIF, report.FormatCSV}

// setOf makes a set of images.
func setOf(images ...report.Input) report.Set {
	return report.Set{
		Name: "images of namespace a", ToolVersion: "v1.2.3", CreatedAt: time.Unix(1700000100, 0),
		Images: func(yield func(report.Input) error) error {
			for _, in := range images {
				if err := yield(in); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func named(in report.Input, imageID string) report.Input {
	in.ImageID = imageID
	return in
}

func setAs(t *testing.T, format report.Format, set report.Set) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := report.WriteSet(&b, format, set); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return b.Bytes()
}

// threeImages hold the same packages, partly; the one in the middle has nothing.
func threeImages() report.Set {
	dated := named(plain(), "plain")
	dated.Lifecycle.EndOfLife, dated.Created = time.Date(2026, 6, 10, 0, 0, 0, 0, time.UTC), time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	return setOf(full(), named(inputOf(nil, nil), "empty"), dated)
}

func TestSetFollowsTheSchemas(t *testing.T) {
	spdx := compile(t, moduleFile(t, "github.com/anchore/syft", "schema/spdx-json/spdx-schema-2.3.json"), "spdx.json", "")
	sarifSchema := compile(t, moduleFile(t, "github.com/anchore/grype", "grype/presenter/sarif/testdata/sarif-schema-2.1.0.json"), "sarif.json", "")
	for name, set := range map[string]report.Set{"three": threeImages(), "one": setOf(full()), "none": setOf()} {
		valid(t, name, schema(t), setAs(t, report.FormatCycloneDX, set))
		valid(t, name, spdx, setAs(t, report.FormatSPDX, set))
		valid(t, name, sarifSchema, setAs(t, report.FormatSARIF, set))
	}
}

func TestSetAsCycloneDX(t *testing.T) {
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(setAs(t, report.FormatCycloneDX, threeImages())), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	refs := map[string]bool{}
	var images []string
	for _, image := range *bom.Components {
		images = append(images, image.Name)
		for _, c := range append(*image.Components, image) {
			if refs[c.BOMRef] {
				t.Errorf("the reference %s is there twice", c.BOMRef)
			}
			refs[c.BOMRef] = true
		}
	}
	if diff := cmp.Diff([]string{"registry.example.com:5000/team/Web-App", "empty", "plain"}, images); diff != "" {
		t.Error(diff)
	}
	alone := setAs(t, report.FormatCycloneDX, setOf(full()))
	for _, v := range *bom.Vulnerabilities {
		if refs[v.BOMRef] {
			t.Errorf("the reference %s is there twice", v.BOMRef)
		}
		refs[v.BOMRef] = true
		for _, affects := range *v.Affects {
			if !refs[affects.Ref] {
				t.Errorf("%s affects %s, which is not there", v.ID, affects.Ref)
			}
		}
	}
	if len(*bom.Vulnerabilities) < 5 || !bytes.Contains(alone, []byte((*bom.Vulnerabilities)[0].BOMRef)) {
		t.Errorf("%d vulnerabilities", len(*bom.Vulnerabilities))
	}
}

func TestSetAsSPDX(t *testing.T) {
	document := new(v2_3.Document)
	if err := spdxjson.ReadInto(bytes.NewReader(setAs(t, report.FormatSPDX, threeImages())), document); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, p := range document.Packages {
		if id := string(p.PackageSPDXIdentifier); ids[id] {
			t.Errorf("the identifier %s is there twice", id)
		}
		ids[string(p.PackageSPDXIdentifier)] = true
	}
	described := 0
	for _, r := range document.Relationships {
		if r.Relationship == "DESCRIBES" {
			described++
		}
		if !ids[string(r.RefB.ElementRefID)] {
			t.Errorf("a relationship names %s, which is not there", r.RefB.ElementRefID)
		}
	}
	if described != 3 || len(document.Relationships) != len(document.Packages) || len(document.OtherLicenses) != 1 {
		t.Errorf("%d images, %d relationships of %d packages, %d licences", described, len(document.Relationships), len(document.Packages), len(document.OtherLicenses))
	}
}

func TestSetAsSARIFAndCSV(t *testing.T) {
	document, err := sarif.FromBytes(setAs(t, report.FormatSARIF, threeImages()))
	if err != nil {
		t.Fatal(err)
	}
	var results []int
	for _, run := range document.Runs {
		results = append(results, len(run.Results))
	}
	if diff := cmp.Diff([]int{4, 0, 3}, results); diff != "" {
		t.Error(diff)
	}
	rows, err := csv.NewReader(bytes.NewReader(setAs(t, report.FormatCSV, threeImages()))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+4+3 || strings.Join(rows[0][:6], " ") != "image_id platform distro end_of_life image_created vulnerability" ||
		strings.Join(rows[7][:5], " ") != "plain linux/amd64 debian:12 2026-06-10 2025-01-02T03:04:05Z" {
		t.Errorf("%d rows: %v", len(rows), rows)
	}
}

func TestSetFails(t *testing.T) {
	broken := errors.New("broken")
	for _, format := range setFormats {
		if err := report.WriteSet(failingWriter{}, format, threeImages()); err == nil {
			t.Errorf("%s: a writer that fails went unnoticed", format)
		}
		in := full()
		in.Findings = func(func(model.Finding) error) error { return broken }
		if err := report.WriteSet(io.Discard, format, setOf(in)); !errors.Is(err, broken) {
			t.Errorf("%s: a source that fails: %v", format, err)
		}
	}
	if err := report.WriteSet(io.Discard, report.FormatTable, threeImages()); err == nil {
		t.Error("a set is written as a table")
	}
}

// heapWatcher drops what it gets, and notes how much is alive from time to time.
type heapWatcher struct {
	written, next int
	highest       uint64
}

func (h *heapWatcher) Write(p []byte) (int, error) {
	h.written += len(p)
	if h.written >= h.next {
		h.next = h.written + 1<<20
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		h.highest = max(h.highest, stats.HeapAlloc)
	}
	return len(p), nil
}

// However many images there are, memory holds the packages and findings of one.
func TestSetStaysSmall(t *testing.T) {
	image := func(number int) report.Input {
		in := named(inputOf(nil, nil), fmt.Sprintf("image-%d", number))
		packageNumber := func(i int) model.Package {
			return packageOf(fmt.Sprintf("package-%d-%d", number, i), strings.Repeat("1", 500))
		}
		in.Packages = func(yield func(model.HeldPackage) error) error {
			for i := range 300 {
				if err := yield(model.HeldPackage{Package: packageNumber(i)}); err != nil {
					return err
				}
			}
			return nil
		}
		in.Findings = func(yield func(model.Finding) error) error {
			for i := range 300 {
				if err := yield(findingOf(packageNumber(i), fmt.Sprintf("CVE-%d", i), model.SeverityHigh)); err != nil {
					return err
				}
			}
			return nil
		}
		return in
	}
	for _, format := range setFormats {
		var heaps [2]heapWatcher
		for i, count := range []int{2, 20} {
			var images []report.Input
			for number := range count {
				images = append(images, image(number))
			}
			if err := report.WriteSet(&heaps[i], format, setOf(images...)); err != nil {
				t.Fatal(err)
			}
		}
		if few, many := heaps[0], heaps[1]; many.highest > few.highest+4<<20 || many.written < 3<<20 {
			t.Errorf("%s: %d bytes alive for 2 images, %d for 20 (%d bytes written)", format, few.highest, many.highest, many.written)
		}
	}
}
