package notify

import (
	"flag"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

var pictures = flag.String("pictures", "", "write the pictures of a mail for the documentation into this directory; by default they are made and deleted")

// shown is the message of the pictures.
func shown() *Message {
	m := &Message{Rule: "shop/exploited", Group: "shop", Link: "https://scanner.example.com/database"}
	for _, f := range []Finding{
		{KEVAdded, "CVE-2026-31337", model.SeverityHigh, true, 0.91, "openssl", "3.0.15-1~deb12u1", "3.0.17-1~deb12u2", 4, "", 0},
		{FindingOpened, "CVE-2026-20011", model.SeverityCritical, false, 0.12, "libxml2", "2.9.14+dfsg-1.3", "2.9.14+dfsg-1.4", 3, "", 0},
		{FindingOpened, "GHSA-4f7c-pmjv-9q2x", model.SeverityHigh, false, 0.02, "golang.org/x/net", "v0.36.0", "0.38.0", 2, "", 0},
		{FindingOpened, "CVE-2026-18822", model.SeverityMedium, false, 0, "busybox", "1.36.1-r29", "", 1, "", 0},
	} {
		m.addFinding(f, noon)
	}
	m.addWorkloads([]string{"shop/Deployment/cart", "shop/Deployment/checkout", "shop/Deployment/web", "shop/StatefulSet/search"})
	return m
}

// TestPictures makes the pictures of a mail in a browser, those of the documentation with make screenshots.
func TestPictures(t *testing.T) {
	const program = "chromium-headless-shell"
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("%s is not installed; make setup installs it", program)
	}
	if *pictures == "" {
		*pictures = t.TempDir()
	}
	file := filepath.Join(t.TempDir(), "mail.html")
	must(t, os.WriteFile(file, []byte(defaultTexts.Page(shown())), 0o600))
	for name, c := range map[string]struct {
		width, height int
		dark          bool
	}{"mail-phone.png": {390, 900, false}, "mail.png": {760, 800, true}} {
		theme := "light"
		if c.dark {
			theme = "dark"
		}
		browser := exec.CommandContext(t.Context(), program, "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=2",
			"--blink-settings=preferredColorScheme="+map[string]string{"dark": "0", "light": "1"}[theme],
			fmt.Sprintf("--window-size=%d,%d", c.width, c.height), "--screenshot="+filepath.Join(*pictures, name), "file://"+file)
		if output, err := browser.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, output)
			continue
		}
		content, err := os.Open(filepath.Join(*pictures, name))
		must(t, err)
		size, err := png.DecodeConfig(content)
		if _ = content.Close(); err != nil || size.Width != 2*c.width || size.Height != 2*c.height {
			t.Errorf("%s: %d x %d pixels, %v", name, size.Width, size.Height, err)
		}
	}
}
