package sqlstore

import (
	"maps"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// previewedPlaces are the visible places of images that decisions with places are about.
type previewedPlaces struct {
	placer *placer
	// placed are the reaches with places. wanted is that of the decision, nil if it has none.
	placed  map[int64]bool
	wanted  *placedReach
	running *runningPlaces
}

// wantedReach stands for the reach of the decision.
const wantedReach = -1

// covered is where decisions apply in an image: in all of it, or in some of its visible places.
type covered struct {
	whole  bool
	places []bool
}

func (c covered) some() bool { return c.whole || slices.Contains(c.places, true) }
func (c covered) all() bool {
	return c.whole || len(c.places) > 0 && !slices.Contains(c.places, false)
}

// with is where one of two applies.
func (c covered) with(o covered) covered {
	both := covered{whole: c.whole || o.whole, places: slices.Clone(c.places)}
	if both.places == nil {
		both.places = o.places
		return both
	}
	for i, has := range o.places {
		both.places[i] = both.places[i] || has
	}
	return both
}

// readPlaces reads the places if decisions have some.
func (p *decisionPreview) readPlaces() (err error) {
	if p.places.placed, err = placedReaches(p.tx); err != nil {
		return err
	}
	reach := p.decision.reach
	if len(p.places.placed) == 0 && (reach == nil || !reach.placed) {
		return nil
	}
	if p.places.placer, err = readPlacer(p.tx, slices.Sorted(maps.Keys(p.places.placed)), nil); err != nil {
		return err
	}
	if reach != nil && reach.placed {
		wanted := &placedReach{id: wantedReach, members: []int64{wantedReach}}
		var spec reachSpec
		if err := fromJSON(reach.spec, &spec); err != nil {
			return err
		}
		if len(spec.Images) > 0 {
			if wanted.images, err = decision.NewImageMatcher(spec.Images); err != nil {
				return err
			}
		}
		p.places.wanted = wanted
		p.places.placer.reaches[wantedReach], p.places.placer.in[wantedReach] = wanted, wanted.members
		for _, at := range reach.places {
			p.places.placer.add(wantedReach, at)
		}
	}
	running, err := readRunningPlaces(p.tx, nil)
	if err != nil {
		return err
	}
	for image, places := range running.places {
		running.places[image] = slices.DeleteFunc(places, func(at store.Workload) bool { return !p.in.Contains(at.Namespace) })
	}
	p.places.running = running
	return nil
}

// covers is where a reach has an image.
func (p *decisionPreview) covers(reach, image int64) covered {
	if reach == everywhere {
		return covered{whole: true}
	}
	if reach != wantedReach && !p.places.placed[reach] {
		return covered{whole: p.others.reached[reach][image]}
	}
	return covered{places: p.places.coveredPlaces(reach, image)}
}

// wantedIn is where the decision would apply.
func (p *decisionPreview) wantedIn(image int64) covered {
	if p.places.wanted == nil {
		return covered{whole: p.wanted == nil || p.wanted[image]}
	}
	return p.covers(wantedReach, image)
}

// coveredPlaces says which places of an image a reach of a decision has.
func (p *previewedPlaces) coveredPlaces(reach, image int64) []bool {
	places := p.running.places[image]
	has := make([]bool, len(places))
	about := p.placer.reaches[reach].about(p.running.imageIDs[image])
	for i, at := range places {
		has[i] = about && p.placer.has(reach, at)
	}
	return has
}

// runs reports whether a workload is one of the places of the decision.
func (p *previewedPlaces) runs(image int64, w store.Workload) bool {
	return p.wanted == nil || p.wanted.about(p.running.imageIDs[image]) && p.placer.has(wantedReach, w)
}
