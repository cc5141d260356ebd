package metrics

import (
	"context"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// maxEndedDistros is the maximum number of distributions that have a series of their own.
	maxEndedDistros = 50
	// otherDistros is the label of the distributions beyond.
	otherDistros = "other"
)

// olderThan are the ages in days that images are counted by.
var olderThan = []int{90, 180, 365}

var (
	endedDesc = prometheus.NewDesc(namespace+"_images_end_of_life",
		"Running images whose distribution has reached its end of life, by distribution; beyond 50 distributions, the others as other.",
		[]string{"distro", "version"}, nil)
	olderDesc = prometheus.NewDesc(namespace+"_images_older_than",
		"Running images that were created at least this number of days ago.", []string{"days"}, nil)
	ageUnknownDesc = prometheus.NewDesc(namespace+"_images_age_unknown",
		"Running images whose creation time is not known.", nil, nil)
)

// AgeCounter is what Ages reads of the store.
type AgeCounter interface {
	RunningAges(ctx context.Context, distros int, days []int) (store.RunningAges, error)
}

// Ages is a collector about the distributions and the ages of the images that run.
type Ages struct {
	store AgeCounter
	log   logr.Logger
}

// NewAges registers the collector.
func NewAges(registerer prometheus.Registerer, s AgeCounter, log logr.Logger) error {
	return register(registerer, &Ages{store: s, log: log})
}

// Describe implements prometheus.Collector.
func (a *Ages) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{endedDesc, olderDesc, ageUnknownDesc} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector. When the store cannot be read, all are missing.
func (a *Ages) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	ages, err := a.store.RunningAges(ctx, maxEndedDistros, olderThan)
	if err != nil {
		a.log.Error(err, "Failed to read the ages of images for metrics")
		return
	}
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	for _, ended := range ages.Ended {
		name, version, _ := strings.Cut(ended.Distro, ":")
		gauge(endedDesc, ended.Images, strings.ToValidUTF8(name, ""), strings.ToValidUTF8(version, ""))
	}
	if ages.OtherEnded > 0 {
		gauge(endedDesc, ages.OtherEnded, otherDistros, "")
	}
	for days, images := range ages.Older {
		gauge(olderDesc, images, strconv.Itoa(days))
	}
	gauge(ageUnknownDesc, ages.Unknown)
}
