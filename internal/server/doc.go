// Package server serves the REST API, the WebSockets and the built UI. openapi/openapi.yaml is the source of its interface
// (package api is generated from it); each resource has a file of its own. Package auth decides who may do what, package
// live serves the WebSockets, and package problem maps errors to answers.
//
// Everything that comes in is hostile until proven otherwise: bodies, headers, connections, queues and waits are bounded,
// and what exceeds a bound is refused with a problem document (RFC 9457) that names it.
package server
