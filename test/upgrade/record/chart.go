package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/scanner-operator/scanner-operator/test/upgrade"
)

// recordMigrations writes the checksums of the migrations.
func recordMigrations(dir string) error {
	sums, err := upgrade.MigrationSums("internal/store/sqlstore/migrations")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "migrations.txt"), []byte(strings.Join(sums, "\n")+"\n"), 0o644)
}

// recordChart writes the default values and those of the chart's own tests, each with the fixed fields of what they render.
func recordChart(ctx context.Context, dir string) error {
	files, err := filepath.Glob("test/chart/testdata/*.yaml")
	if err != nil {
		return err
	}
	for _, file := range append(files, "charts/scanner-operator/values.yaml") {
		values, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name := filepath.Join(dir, "chart", filepath.Base(file))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, values, 0o644); err != nil {
			return err
		}
		out, err := exec.CommandContext(ctx, os.Getenv("HELM"), "template", "scanner", "charts/scanner-operator", "--namespace", "scanner-system", "--values", file,
			"--set=image.repository=scanner-operator").Output()
		if err != nil {
			return fmt.Errorf("render %s: %w", file, err)
		}
		fixed, err := upgrade.FixedFields(out)
		if err != nil {
			return err
		}
		content, err := json.MarshalIndent(fixed, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(strings.TrimSuffix(name, ".yaml")+".json", append(content, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}
