package kube

// Maximum lengths of the texts of an Event, in bytes; the API server refuses longer ones. Messages of conditions keep to MaxNote too.
const (
	MaxNote   = 1024
	MaxAction = 128
)
