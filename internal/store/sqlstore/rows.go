package sqlstore

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Bounds of what is stored, in bytes.
const (
	maxMessage = 1 << 10
	// maxName bounds the name and the version of a package; both are in page tokens.
	maxName = 1 << 10
	// maxIdentifier bounds what is in an index beside image IDs: IDs and namespaces of vulnerabilities, IDs of builds.
	maxIdentifier = 255
	// maxReportSize bounds a report from outside.
	maxReportSize = 256 << 20
)

// imageRow is a row of images, joined with the result set that its findings come from and whether there is a report.
type imageRow struct {
	ID            int64
	ImageID       string
	Platform      string
	State         string
	Nonce         string
	Attempts      int
	Reason        string
	Message       string
	NextAttemptAt int64
	Distro        string
	Size          int64
	PackageCount  int
	Counts        countsRow `gorm:"embedded"`
	FirstSeen     int64
	CatalogedAt   int64
	MatchedAt     int64
	SbomSha256    string `gorm:"column:sbom_sha256"`
	SbomSize      int64
	Projection    int
	BuildID       *string
	SchemaVersion *string
	Built         *int64
	Source        *string
	CurrentSince  *int64
	FromReport    int64
	HasReport     int64
	SizeClass     string
	ScannedIn     string
	Cataloger     string
	PulledFrom    string
	AttestedBy    string
	// RecatalogFor and RecatalogOpen are those of store.Recatalog.
	RecatalogFor  string
	RecatalogOpen int64
	ReadFrom      string
	EndOfLife     int64
	EndOfSupport  int64
	CreatedAt     int64
	Unreadable    int64
	Reported      countsRow `gorm:"embedded;embeddedPrefix:reported_"`
	// limited says that what follows from other namespaces was taken out.
	limited bool
}

// countsRow holds the columns of store.Counts.
type countsRow struct {
	Critical, High, Medium, Low, Negligible, Unknown int
	Kev, Fixable                                     int
}

// countColumns are the columns of countsRow, in the order of its values.
var countColumns = []string{"critical", "high", "medium", "low", "negligible", "unknown", "kev", "fixable"}

func (r countsRow) counts() store.Counts {
	return store.Counts{
		SeverityCounts: model.SeverityCounts{
			Critical: r.Critical, High: r.High, Medium: r.Medium, Low: r.Low, Negligible: r.Negligible, Unknown: r.Unknown,
		},
		KEV: r.Kev, Fixable: r.Fixable,
	}
}

func countValues(c store.Counts) []any {
	return []any{c.Critical, c.High, c.Medium, c.Low, c.Negligible, c.Unknown, c.KEV, c.Fixable}
}

// imageColumns are the columns of imageRow, of images i, result sets g, reports r, repository_sizes z, sbom_origins o,
// sbom_catalogers c, sbom_repositories s, sbom_sources w, sbom_attestations t, recatalogs n, distro_lifecycles d and sbom_creations a.
var imageColumns = `i.id, i.image_id, i.platform, i.state, i.nonce, i.attempts, i.reason, i.message, i.next_attempt_at, i.distro,
	i.size, i.package_count, i.critical, i.high, i.medium, i.low, i.negligible, i.unknown, i.kev, i.fixable,
	i.first_seen, i.catalogued_at AS cataloged_at, i.matched_at, i.sbom_sha256, i.sbom_size, g.build_id, g.schema_version, g.built, g.source,
	g.current_since, i.from_report, COALESCE(z.class, '') AS size_class, COALESCE(o.namespace, '') AS scanned_in, COALESCE(c.cataloger, '') AS cataloger,
	COALESCE(s.repository, '') AS pulled_from, COALESCE(w.source, '') AS read_from, COALESCE(w.unreadable, 0) AS unreadable,
	COALESCE(d.end_of_life, 0) AS end_of_life, COALESCE(d.end_of_support, 0) AS end_of_support, COALESCE(a.created_at, 0) AS created_at,
	COALESCE(t.key_id, '') AS attested_by, COALESCE(n.cataloger, '') AS recatalog_for, COALESCE(n.is_open, 0) AS recatalog_open,
	CASE WHEN r.id IS NULL THEN 0 ELSE 1 END AS has_report, ` +
	perCount("COALESCE(r.%[1]s, 0) AS reported_%[1]s")

// perCount is a column for each of countColumns, whose name is %[1]s in the format.
func perCount(format string) string {
	columns := make([]string, len(countColumns))
	for i, column := range countColumns {
		columns[i] = fmt.Sprintf(format, column)
	}
	return strings.Join(columns, ", ")
}

// imageJoins gives images that are matched the current result set: their findings come from it.
const imageJoins = ` LEFT JOIN generations g ON g.state = '` + string(store.ResultSetCurrent) + `' AND i.matched_at > 0 LEFT JOIN reports r ON r.image_id = i.image_id
	LEFT JOIN repository_sizes z ON z.repository = i.repository LEFT JOIN sbom_origins o ON o.image_pk = i.id
	LEFT JOIN sbom_catalogers c ON c.image_pk = i.id LEFT JOIN recatalogs n ON n.image_pk = i.id
	LEFT JOIN sbom_repositories s ON s.image_pk = i.id LEFT JOIN sbom_sources w ON w.image_pk = i.id
	LEFT JOIN sbom_attestations t ON t.image_pk = i.id LEFT JOIN distro_lifecycles d ON d.distro = i.distro
	LEFT JOIN sbom_creations a ON a.image_pk = i.id`

func (r *imageRow) key() (model.ImageKey, error) { return keyOf(r.ImageID, r.Platform) }

func keyOf(imageID, platform string) (model.ImageKey, error) {
	key := model.ImageKey{ImageID: imageID}
	if platform == "" {
		return key, nil
	}
	var err error
	if key.Platform, err = model.ParsePlatform(platform); err != nil {
		return model.ImageKey{}, fmt.Errorf("image %q in the database: %w", imageID, err)
	}
	return key, nil
}

func (r *imageRow) state() (store.ImageState, error) {
	key, err := r.key()
	if err != nil {
		return store.ImageState{}, err
	}
	return store.ImageState{
		Key: key, State: store.State(r.State), Nonce: r.Nonce, Attempts: r.Attempts, Reason: model.Reason(r.Reason),
		Message: r.Message, NextAttempt: fromMicros(r.NextAttemptAt),
	}, nil
}

func (r *imageRow) image() (store.Image, error) {
	state, err := r.state()
	if err != nil {
		return store.Image{}, err
	}
	image := store.Image{
		ImageState: state, Distro: r.Distro, Size: r.Size, PackageCount: r.PackageCount, Counts: r.Counts.counts(),
		FirstSeen: fromMicros(r.FirstSeen), CatalogedAt: fromMicros(r.CatalogedAt), MatchedAt: fromMicros(r.MatchedAt),
		HasReport: r.HasReport != 0, SizeClass: model.SizeClass(r.SizeClass).OrSmall(), ScannedIn: r.ScannedIn, Cataloger: r.Cataloger, PulledFrom: r.PulledFrom,
		AttestedBy: r.AttestedBy, FromReport: r.FromReport != 0,
		SBOMSHA256: r.SbomSha256, SBOMSizeBytes: r.SbomSize, Recatalog: store.Recatalog{Cataloger: r.RecatalogFor, Open: r.RecatalogOpen != 0},
		Source: model.ImageSource(r.ReadFrom), Unreadable: r.Unreadable, Created: fromMicros(r.CreatedAt),
		Lifecycle: model.Lifecycle{EndOfSupport: fromMicros(r.EndOfSupport), EndOfLife: fromMicros(r.EndOfLife)},
	}
	if r.limited {
		image.SizeClass = "" // All images of a repository share it.
	}
	if image.HasReport {
		counts := r.Reported.counts()
		image.Reported = &counts
	}
	if r.BuildID != nil && r.SchemaVersion != nil && r.Built != nil && r.Source != nil && r.CurrentSince != nil {
		image.MatchedAt = fromMicros(max(r.MatchedAt, *r.CurrentSince))
		image.Database = &model.DatabaseBuild{
			ID: *r.BuildID, SchemaVersion: *r.SchemaVersion, Built: fromMicros(*r.Built), Source: model.DatabaseSource(*r.Source),
		}
	}
	return image, nil
}

// packageRow holds the columns of model.Package and of its place in an image.
type packageRow struct {
	Fingerprint, Name, Version, Type, Language string
	Purl, Distro, Licenses, Cpes               string
	MatchInput                                 []byte
	Locations                                  string
	Excluded                                   int64
	Own                                        string
}

const packageColumns = `p.fingerprint, p.name, p.version, p.type, p.language, p.purl, p.distro, p.licenses, p.cpes, p.match_input,
	ip.locations, ip.excluded, ip.own`

func (r *packageRow) held() (model.HeldPackage, error) {
	held := model.HeldPackage{
		Package: model.Package{
			Fingerprint: r.Fingerprint, Name: r.Name, Version: r.Version, Type: r.Type, Language: r.Language,
			PURL: r.Purl, Distro: r.Distro, MatchInput: json.RawMessage(r.MatchInput),
		},
		Excluded: r.Excluded != 0,
	}
	for _, field := range []struct {
		content string
		target  any
	}{{r.Licenses, &held.Package.Licenses}, {r.Cpes, &held.Package.CPEs}, {r.Locations, &held.Locations}} {
		if err := fromJSON(field.content, field.target); err != nil {
			return model.HeldPackage{}, fmt.Errorf("package %s in the database: %w", r.Fingerprint, err)
		}
	}
	if err := applyOverrides(r.Own, &held.Package); err != nil {
		return model.HeldPackage{}, fmt.Errorf("package %s in the database: %w", r.Fingerprint, err)
	}
	return held, nil
}

// toJSON writes a list; an empty one is "".
func toJSON[T any](list []T) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	content, err := json.Marshal(list)
	return string(content), err
}

func fromJSON(content string, target any) error {
	if content == "" {
		return nil
	}
	return json.Unmarshal([]byte(content), target)
}

func boolean(value bool) int64 {
	if value {
		return 1
	}
	return 0
}

// checkKeys refuses what no database should hold.
func checkKeys(keys []model.ImageKey) error {
	if len(keys) > store.MaxKeys {
		return fmt.Errorf("%d images, the maximum is %d", len(keys), store.MaxKeys)
	}
	for _, key := range keys {
		if err := key.Validate(); err != nil {
			return err
		}
		if key.Platform == (model.Platform{}) {
			continue
		}
		if _, err := model.ParsePlatform(key.Platform.String()); err != nil {
			return fmt.Errorf("image %s: %w", key.ImageID, err)
		}
	}
	return nil
}
