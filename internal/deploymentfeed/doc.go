// Package deploymentfeed sends messages about changes of Deployments to clients as the changes happen.
package deploymentfeed
