// Package outbound connects to receivers outside of the operator: it decides which addresses the operator connects to, follows no redirects, reads the mounted
// credentials, and its errors repeat nothing that a receiver answers.
package outbound

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// dialTimeout is how long it may take to connect to a receiver.
const dialTimeout = 5 * time.Second

// shared are networks that are not public, besides those that netip.Addr knows: the operator must not be the way to services there.
var shared = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"), nat64, netip.MustParsePrefix("64:ff9b:1::/48"), sixToFour,
}

// nat64 and sixToFour are networks of IPv6 whose addresses contain one of IPv4.
var nat64, sixToFour = netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2002::/16")

// metadata are the addresses at which clouds tell machines their credentials.
var metadata = []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"),
	netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("100.100.100.200")}

// Guard decides to which addresses the operator connects, after their names are resolved.
type Guard struct {
	// Allows says which addresses that are not public are permitted, nil for none.
	Allows func(netip.Addr) bool
	// Trusted says that the administrator of the cluster chose the address: it is in a credential.
	Trusted bool
	// Plain says that the connection is without TLS.
	Plain bool
}

// Check refuses an address, which is IP:PORT.
func (g Guard) Check(address string) error {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("parse the address %s: %w", address, err)
	}
	ip := parsed.Addr().Unmap().WithZone("")
	if forbidden(ip) || forbidden(embedded(ip)) {
		return Error("the address of the receiver is not permitted")
	}
	if g.Trusted || g.Allows != nil && g.Allows(ip) {
		return nil
	}
	private := ip.IsPrivate() || ip.IsLoopback() || !ip.IsGlobalUnicast()
	for _, network := range shared {
		private = private || network.Contains(ip)
	}
	if private {
		return Error("the address of the receiver is not public: the chart value notifications.allowedNetworks has to contain it")
	}
	if g.Plain {
		return Error("plain HTTP is not permitted for the address of the receiver: use https, or the chart value notifications.allowedNetworks has to contain it")
	}
	return nil
}

// forbidden reports whether nobody permits an address.
func forbidden(ip netip.Addr) bool {
	return ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || slices.Contains(metadata, ip)
}

// embedded is the IPv4 address that a gateway reaches under an IPv6 address of NAT64 (RFC 6052) or 6to4 (RFC 3056); any other address is returned as it is.
func embedded(ip netip.Addr) netip.Addr {
	b := ip.As16()
	switch {
	case nat64.Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6]))
	default:
		return ip
	}
}

// Dial connects to an address, if it is permitted. Whatever the name stands for is checked when the connection is made.
func (g Guard) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error { return g.Check(address) }}
	return dialer.DialContext(ctx, network, address)
}
