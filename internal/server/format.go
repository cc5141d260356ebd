package server

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/report"
)

// media says how documents of a format are called.
type media struct{ mediaType, extension string }

var medias = map[report.Format]media{
	report.FormatJSON:         {"application/json", ".json"},
	report.FormatCycloneDX:    {"application/vnd.cyclonedx+json", ".cdx.json"},
	report.FormatSPDX:         {"application/spdx+json", ".spdx.json"},
	report.FormatSARIF:        {"application/sarif+json", ".sarif"},
	report.FormatCSV:          {"text/csv", ".csv"},
	formatHTML:                {"text/html", ".html"},
	report.FormatOpenVEX:      {"application/vnd.openvex+json", ".openvex.json"},
	report.FormatCycloneDXVEX: {"application/vnd.cyclonedx+json", ".vex.cdx.json"},
}

// formatOf reads the format that a request asks for by the parameter format, or by Accept without it. The first of those that
// are offered is for who accepts anything, or nothing of what there is.
func formatOf[T ~string](r *http.Request, explicit *T, offered ...report.Format) (report.Format, error) {
	var p parameters
	if explicit != nil {
		return choice(&p, "format", explicit, offered...), p.err
	}
	best, most := offered[0], 0.0
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		mediaType, weight := acceptable(part)
		i := slices.IndexFunc(offered, func(f report.Format) bool { return medias[f].mediaType == mediaType })
		if mediaType == "*/*" || mediaType == "application/*" {
			i = 0
		}
		if i >= 0 && weight > most {
			best, most = offered[i], weight
		}
	}
	return best, nil
}

// acceptable reads one range of an Accept header and its weight.
func acceptable(part string) (mediaType string, weight float64) {
	mediaType, params, err := mime.ParseMediaType(part)
	if err != nil {
		return "", 0
	}
	weight = 1
	if q, found := params["q"]; found {
		if weight, err = strconv.ParseFloat(q, 64); err != nil {
			return "", 0
		}
	}
	return mediaType, weight
}

// wantsCSV reads the format of a list that can be had as a table.
func wantsCSV[T ~string](r *http.Request, explicit *T) (bool, error) {
	format, err := formatOf(r, explicit, report.FormatJSON, report.FormatCSV)
	return format == report.FormatCSV, err
}
