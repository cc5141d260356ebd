package model

// MaxOwner is the maximum length of the name of the owner of a workload, in bytes.
const MaxOwner = 253
