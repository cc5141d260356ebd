package coverage

import "github.com/scanner-operator/scanner-operator/internal/model"

// advice is the default message of each reason: what failed or what happens next, and what to do. docs/how-to/coverage.md
// explains more.
var advice = map[string]string{
	ReasonNotPulled:    "the kubelet has not pulled the image yet; the scan starts afterwards",
	ReasonNotCataloged: "the image is waiting for its scan",
	ReasonNotMatched:   "the SBOM is waiting to be matched against the vulnerability database",
	ReasonFilesUnreadable: "the scan could not read some files of the image, so that packages may be missing; let the scan pull the image from its registry, " +
		"or let scan pods run in a user namespace (see docs/how-to/coverage.md)",
	ReasonNoDatabase: "no vulnerability database is installed; see the condition DatabaseReady",

	string(model.ReasonImagePullDenied):     "the registry denied access to the image; add an image pull secret to the pod or to spec.job.imagePullSecrets of the Scanner",
	string(model.ReasonImageNotFound):       "the registry does not have this digest; deploy an image that exists",
	string(model.ReasonRegistryRateLimited): "the registry limits the rate of requests; authenticated requests often have a higher limit",
	string(model.ReasonRegistryUnavailable): "the registry is not reachable or returned an error; check the network, the proxy and the registry",
	string(model.ReasonNotPullable): "the container runtime reports no repository and digest, because the image was built on the node or loaded into it; " +
		"push it to a registry and deploy it from there, or set spec.job.source of the Scanner to Auto or ImageVolume, so that scans read it from the node",
	string(model.ReasonPlatformMismatch): "the image is not available for the platform of the node; build it for that platform",
	string(model.ReasonImageTooLarge):    "the image exceeds the size limits of a scan",
	string(model.ReasonOutOfMemory):      "the scan ran out of memory; increase spec.job.resources of the Scanner or --scan-max-memory of the operator",
	string(model.ReasonOutOfDisk):        "the scan ran out of disk space; free ephemeral storage on the node",
	string(model.ReasonDeadlineExceeded): "the scan exceeded its deadline; increase --scan-deadline if the registry or the node is slow",
	string(model.ReasonUnschedulable):    "the scan pod cannot start; check the quota, the admission policies and the capacity of the nodes",
	string(model.ReasonCatalogFailed):    "the scan failed; see the message of the image",
	string(model.ReasonUploadFailed):     "the SBOM could not be uploaded to the operator; check the network policies between the scan pod and the operator",
	string(model.ReasonMatchFailed):      "matching against the vulnerability database failed; it is retried automatically",

	"IgnoreLabel": "the pod has the ignore label of the Scanner",
}

// Advice returns the default message of a reason, "" for an unknown one.
func Advice(reason string) string { return advice[reason] }
