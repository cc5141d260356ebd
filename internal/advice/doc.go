// Package advice says what people can do about findings: what another image opens and closes. It does no I/O.
package advice
