// Package plugin is the kubectl plugin "kubectl scanner": a client of the operator's API for terminals. It finds the operator's Service, reaches it through
// the service proxy of the Kubernetes API server, and prints lists as kubectl does. Everything that it prints of the API is untrusted.
package plugin
