//go:build !linux

package bench

import "errors"

func evict(string) error { return errors.New("only Linux is asked to") }
