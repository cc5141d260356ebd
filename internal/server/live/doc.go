// Package live serves WebSockets: a hub hands the events of the event feed to all of them, and each of them is sent the
// stream that its client asked for.
package live
