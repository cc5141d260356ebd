package model

// SizeClass says how much memory the scan of an image gets: the images of one repository are much alike, so what one of them
// needed is remembered for all.
type SizeClass string

// The size classes. The empty one is SizeSmall.
const (
	SizeSmall  SizeClass = "S"
	SizeMedium SizeClass = "M"
	SizeLarge  SizeClass = "L"
)

// Factor is what the memory of a scan in the smallest class is multiplied by.
func (c SizeClass) Factor() int64 {
	switch c {
	case SizeMedium:
		return 2
	case SizeLarge:
		return 4
	default:
		return 1
	}
}

// Next is the class above, false when there is none.
func (c SizeClass) Next() (SizeClass, bool) {
	switch c {
	case SizeLarge:
		return SizeLarge, false
	case SizeMedium:
		return SizeLarge, true
	default:
		return SizeMedium, true
	}
}

// Valid reports whether c is one of the classes by name.
func (c SizeClass) Valid() bool { return c == SizeSmall || c == SizeMedium || c == SizeLarge }

// OrSmall is c, and SizeSmall for what is not a class.
func (c SizeClass) OrSmall() SizeClass {
	if c.Valid() {
		return c
	}
	return SizeSmall
}
