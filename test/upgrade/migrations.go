package upgrade

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// MigrationSums returns "SHA-256  dialect/file" of each migration in a folder.
func MigrationSums(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.sql"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no migrations in %s: %w", dir, err)
	}
	slices.Sort(files)
	var sums []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		sums = append(sums, fmt.Sprintf("%x  %s/%s", sha256.Sum256(content), filepath.Base(filepath.Dir(file)), filepath.Base(file)))
	}
	return sums, nil
}
