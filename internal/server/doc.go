// Package server serves what the store knows: the documents' endpoints and /api/v1 over REST, new results over WebSocket,
// and the built UI. openapi/openapi.yaml is the source of its interface (package api is generated from it); each resource
// has a file of its own.
//
// Everything that comes in is hostile until proven otherwise: bodies, headers, connections, queues and waits are bounded,
// and what exceeds a bound is refused with a problem document (RFC 9457) that names it.
package server
