// Package gomodule builds the programs of modules of their own that tests run.
package gomodule

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// Build returns the path of the program of a module in a folder, and builds it when the module has changed. Processes that build at the same time do not disturb
// each other.
func Build(module string) (program string, err error) {
	name, hash := filepath.Base(module), sha256.New()
	for _, file := range []string{"go.mod", "go.sum", "main.go"} {
		content, err := os.ReadFile(filepath.Join(module, file))
		if err != nil {
			return "", err
		}
		hash.Write(content)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "scanner-operator-"+name)
	program = filepath.Join(dir, name+"-"+hex.EncodeToString(hash.Sum(nil))[:16])
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	built := filepath.Join(temporary, name)
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", built, ".")
	command.Dir = module
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return "", err
	}
	return program, os.Rename(built, program)
}
