// Package report writes what is known of an image as a CycloneDX 1.6 document with vulnerabilities, and reads such
// documents when they come from outside. It imports the words of package model and knows no store.
package report
