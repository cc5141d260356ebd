package outbound

import (
	"net/netip"
	"testing"
)

// A URL that a user chose leads to public addresses, and to those that the administrator allows.
func TestAddresses(t *testing.T) {
	allows := netip.MustParsePrefix("10.1.0.0/16").Contains
	for address, want := range map[string]struct{ byURL, plain, trusted bool }{
		"8.8.8.8:443":                   {true, false, true},
		"[2606:4700::1]:443":            {true, false, true},
		"10.1.2.3:80":                   {true, true, true},
		"10.2.2.3:443":                  {false, false, true},
		"127.0.0.1:443":                 {false, false, true},
		"[::1]:443":                     {false, false, true},
		"[::ffff:127.0.0.1]:443":        {false, false, true},
		"[fd00::1]:443":                 {false, false, true},
		"100.64.0.1:443":                {false, false, true},
		"[64:ff9b::7f00:1]:443":         {false, false, true},
		"169.254.169.254:80":            {false, false, false},
		"[fe80::1]:443":                 {false, false, false},
		"[fd00:ec2::254]:80":            {false, false, false},
		"[fd20:ce::254]:80":             {false, false, false},
		"[64:ff9b::a9fe:a9fe]:80":       {false, false, false},
		"[2002:a9fe:a9fe::1]:80":        {false, false, false},
		"[64:ff9b::808:808]:443":        {false, false, true},
		"[::ffff:169.254.169.254]:80":   {false, false, false},
		"0.0.0.0:443":                   {false, false, false},
		"224.0.0.1:443":                 {false, false, false},
		"192.168.1.1:443":               {false, false, true},
		"[2002:7f00:1::1]:443":          {false, false, true},
		"198.18.0.1:443":                {false, false, true},
		"[::ffff:10.1.2.3]:443":         {true, true, true},
		"not an address":                {false, false, false},
		"[64:ff9b:1::a9fe:a9fe]:443":    {false, false, true},
		"255.255.255.255:443":           {false, false, true},
		"[2001:4860:4860::8888]:443":    {true, false, true},
		"[::]:443":                      {false, false, false},
		"[ff02::1]:443":                 {false, false, false},
		"168.63.129.16:80":              {false, false, false},
		"[fe80::1%eth0]:443":            {false, false, false},
		"[::ffff:169.254.169.254%1]:80": {false, false, false},
	} {
		got := struct{ byURL, plain, trusted bool }{
			Guard{Allows: allows}.Check(address) == nil, Guard{Allows: allows, Plain: true}.Check(address) == nil, Guard{Allows: allows, Trusted: true}.Check(address) == nil,
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", address, got, want)
		}
	}
}
