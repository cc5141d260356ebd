package scanner

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// reachable are the files that a child may open. Directories include all below them; what does not exist is left out.
type reachable struct {
	// execute may be read and run, read may be read; scratch may be changed.
	execute, read []string
	scratch       string
}

// Variables of the environment that name files or directories with certificates, and those that configure proxies.
var (
	certificateVariables = []string{"SSL_CERT_FILE", "SSL_CERT_DIR"}
	proxyVariables       = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}
)

// childFiles are what a child needs to pull an image and to catalog it in scratch: libraries in case that the executable
// is linked to them, name resolution, certificates and time zones. None of them holds a secret of the manager.
func childFiles(executable, scratch string) reachable {
	files := reachable{
		execute: []string{executable, "/lib", "/lib64", "/usr/lib", "/usr/lib64"},
		read: []string{
			"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", "/etc/protocols", "/etc/mime.types", "/etc/ld.so.cache",
			"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates", "/usr/local/share/certs", "/usr/share/pki",
			"/etc/localtime", "/usr/share/zoneinfo",
		},
		scratch: scratch,
	}
	for _, name := range certificateVariables {
		for path := range strings.SplitSeq(os.Getenv(name), ":") {
			if path != "" {
				files.read = append(files.read, path)
			}
		}
	}
	return files
}

// childEnvironment leaves out all that the child does not need: it takes hostile images apart, and the manager's environment holds the
// password of the store.
func childEnvironment(scratch string, memory int64) []string {
	environment := []string{
		"HOME=" + scratch, "TMPDIR=" + scratch,
		"GOMEMLIMIT=" + strconv.FormatInt(memory, 10),
		// The runtime would read the limit of its control group, which the child cannot.
		"GOMAXPROCS=" + strconv.Itoa(runtime.GOMAXPROCS(0)),
	}
	for _, name := range slices.Concat(certificateVariables, proxyVariables, []string{scanjob.RegistriesVariable}) {
		if value, set := os.LookupEnv(name); set {
			environment = append(environment, name+"="+value)
		}
	}
	return environment
}
