package web

import (
	"io/fs"
	"strings"
	"testing"
)

func TestAssets(t *testing.T) {
	t.Parallel()
	assets, ok := Assets()
	if !ok {
		if assets != nil {
			t.Error("assets without a user interface")
		}
		t.Skip("built without the user interface; run npm run build in web")
	}
	index, err := fs.ReadFile(assets, "index.html")
	if err != nil {
		t.Fatal(err)
	}
	page := string(index)
	// The server puts the base path in place of the dot.
	for _, want := range []string{`src="./assets/`, `src="./theme.js"`, `href="./favicon.svg"`, `name="base-path" content="./"`} {
		if !strings.Contains(page, want) {
			t.Errorf("index.html does not contain %s", want)
		}
	}
	if strings.Contains(page, `="/`) {
		t.Error("index.html names files at the root of the host")
	}
	// The Content-Security-Policy of the server allows neither.
	for _, inline := range []string{"<style", "style=", "<script>"} {
		if strings.Contains(page, inline) {
			t.Errorf("index.html holds %q, which the Content-Security-Policy refuses", inline)
		}
	}
}
