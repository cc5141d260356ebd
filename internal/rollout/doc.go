// Package rollout tells what happens to Deployments as it happens, and what changes of images did to what is vulnerable.
package rollout
