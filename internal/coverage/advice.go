package coverage

import "github.com/scanner-operator/scanner-operator/internal/vuln"

// advice says of each reason what comes next or what to do, for where nothing more exact is known. docs/how-to/coverage.md says more.
var advice = map[string]string{
	ReasonNotPulled:     "the kubelet has not pulled the image yet; it is scanned when it has",
	ReasonNotCatalogued: "is about to be scanned",
	ReasonNotMatched:    "is about to be matched with the vulnerability database",
	ReasonNoDatabase:    "is matched as soon as there is a vulnerability database; see the condition DatabaseReady",

	string(vuln.ReasonImagePullDenied):     "the registry wants other credentials; add a pull secret to the pod, or to spec.job.imagePullSecrets",
	string(vuln.ReasonImageNotFound):       "the registry does not have that digest any more; run an image that it has",
	string(vuln.ReasonRegistryRateLimited): "the registry limits how much is pulled; credentials often raise the limit",
	string(vuln.ReasonRegistryUnavailable): "the registry cannot be reached",
	string(vuln.ReasonNotPullable): "the container runtime knows no repository and digest of the image: it was built on its node or imported there. " +
		"Push it to a registry and run it from there",
	string(vuln.ReasonPlatformMismatch): "the image has nothing for the platform of the node",
	string(vuln.ReasonImageTooLarge):    "the image is beyond the limits of a scan",
	string(vuln.ReasonOutOfMemory):      "the scan needs more memory; raise spec.job.resources or --scan-max-memory",
	string(vuln.ReasonOutOfDisk):        "the scan needs more disk space on its node",
	string(vuln.ReasonDeadlineExceeded): "the scan did not end in time",
	string(vuln.ReasonUnschedulable):    "the scan cannot be started",
	string(vuln.ReasonCatalogFailed):    "the scan failed",
	string(vuln.ReasonUploadFailed):     "the result of the scan did not reach the operator",
	string(vuln.ReasonMatchFailed):      "matching failed and is tried again",

	"IgnoreLabel": "the pod carries the Scanner's ignore label",
}

// Advice says what comes next or what to do about a reason, "" for one that is not known.
func Advice(reason string) string { return advice[reason] }
