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
	if !strings.Contains(page, `src="/assets/`) {
		t.Error("index.html names no hashed script below /assets/")
	}
	// The Content-Security-Policy of the server allows neither.
	for _, inline := range []string{"<style", "style=", "<script>"} {
		if strings.Contains(page, inline) {
			t.Errorf("index.html holds %q, which the Content-Security-Policy refuses", inline)
		}
	}
}
