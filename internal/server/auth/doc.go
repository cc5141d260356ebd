// Package auth decides who may do what: it authenticates bearer tokens and sessions by TokenReviews, authorizes by
// SubjectAccessReviews, ties uploads to the Job of an image, and bounds how much each caller may ask.
package auth
