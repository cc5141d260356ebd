// Package url has the one function of go-getter's package of this name.
package url

import "net/url"

// Parse is net/url's.
func Parse(rawURL string) (*url.URL, error) { return url.Parse(rawURL) }
