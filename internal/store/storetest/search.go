package storetest

import "testing"

var searchTests = map[string]func(*testing.T, *fixture){}
