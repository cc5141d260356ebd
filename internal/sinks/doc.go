// Package sinks delivers reports to other systems: it plans what each sink is given, delivers what changed, and removes what runs no more.
package sinks
