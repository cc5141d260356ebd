// Package advice says what people can do about findings: what another image opens and closes, and which version of a package closes findings. It does no I/O.
package advice
