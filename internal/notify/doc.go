// Package notify sends messages about changes that the event log records: it collects what rules select into messages, which the store keeps in the same
// transaction as the position of the rule in the log, and sends them until their receivers accept them.
package notify
